//! Users, groups and rights: which call each verb is.
//!
//! Invariant: as of the other verbs, every call is made as who has logged in.

use super::Request;
use super::dispatch::of;
use crate::identity::{NameQuery, Whose};
use crate::objects::Objects;
use crate::remote::ENTRIES_MAX;
use crate::remote::calls::{
    AddMember, BucketAccess, BucketPolicy, Call, ChangeOwner, ChangePassword, CreateGroup, CreateKey, CreateUser,
    DeleteBucketsOf, DeleteGroup, DeleteKey, DeleteToken, DeleteUser, Explain, Groups, KeysOf, ObjectAccess, OneGroup,
    OnePolicy, OneUser, Owner, RemoveMember, SetBucketAccess, SetBucketPolicy, SetGroup, SetObjectAccess, SetPassword,
    SetPolicy, SetPublicAccess, SetUser, TokensOf, UsageOf, Users,
};

/// What is not one of these is given back.
pub(super) fn run(objects: &Objects, request: Request) -> Option<Request> {
    people(objects, request).and_then(|request| rights(objects, request))
}

fn people(objects: &Objects, request: Request) -> Option<Request> {
    let identities = objects.identities();
    match request.verb {
        CreateGroup::VERB => {
            request.soon::<CreateGroup>(|(name, description)| identities.create_group(&name, &description))
        }
        SetGroup::VERB => request.soon::<SetGroup>(|(name, change)| identities.set_group(&name, change)),
        OneGroup::VERB => request.now::<OneGroup>(|name| identities.group(&name)),
        Groups::VERB => request
            .now::<Groups>(|query| identities.groups(&NameQuery { limit: query.limit.min(ENTRIES_MAX), ..query })),
        DeleteGroup::VERB => request.now::<DeleteGroup>(|name| identities.delete_group(&name)),
        CreateUser::VERB => request
            .now::<CreateUser>(|(group, name, password)| identities.create_user(&group, &name, password.as_deref())),
        SetUser::VERB => request.soon::<SetUser>(|(name, change)| identities.set_user(&name, change)),
        SetPassword::VERB => request.now::<SetPassword>(|(name, password)| identities.set_password(&name, &password)),
        ChangePassword::VERB => {
            request.now::<ChangePassword>(|(name, old, new)| identities.change_password(&name, &old, &new))
        }
        TokensOf::VERB => request.now::<TokensOf>(|user| identities.tokens_of(&user)),
        DeleteToken::VERB => request.soon::<DeleteToken>(|(user, id)| identities.delete_token(&user, &id)),
        OneUser::VERB => request.now::<OneUser>(|name| identities.user(&name)),
        Users::VERB => request.now::<Users>(|mut query| {
            identities.users({
                query.names.limit = query.names.limit.min(ENTRIES_MAX);
                &query
            })
        }),
        DeleteUser::VERB => request.now::<DeleteUser>(|name| identities.delete_user(&name)),
        AddMember::VERB => request
            .soon::<AddMember>(|(group, user, administrator)| identities.add_member(&group, &user, administrator)),
        RemoveMember::VERB => request.soon::<RemoveMember>(|(group, user)| identities.remove_member(&group, &user)),
        CreateKey::VERB => request.soon::<CreateKey>(|(user, options)| identities.create_key(&user, options)),
        KeysOf::VERB => request.now::<KeysOf>(|user| identities.keys_of(&user)),
        DeleteKey::VERB => request.soon::<DeleteKey>(|(user, key)| identities.delete_key(&user, &key)),
        _ => return Some(request),
    }
    None
}

fn rights(objects: &Objects, request: Request) -> Option<Request> {
    let identities = objects.identities();
    match request.verb {
        SetPolicy::VERB => {
            request.soon::<SetPolicy>(|(name, document)| identities.set_policy(&name, document.as_deref()))
        }
        OnePolicy::VERB => request.now::<OnePolicy>(|name| identities.policy(&name)),
        SetPublicAccess::VERB => request.soon::<SetPublicAccess>(|public| identities.set_public_access(public)),
        ChangeOwner::VERB => request
            .soon::<ChangeOwner>(|(bucket, owner, group)| identities.change_owner(&bucket, &owner, group.as_deref())),
        Owner::VERB => request.now::<Owner>(|bucket| identities.owner(&bucket)),
        SetBucketPolicy::VERB => request
            .soon::<SetBucketPolicy>(|(bucket, document)| identities.set_bucket_policy(&bucket, document.as_deref())),
        BucketPolicy::VERB => request.now::<BucketPolicy>(|bucket| identities.bucket_policy(&bucket)),
        SetBucketAccess::VERB => {
            request.soon::<SetBucketAccess>(|(bucket, list)| identities.set_bucket_access(&bucket, list))
        }
        BucketAccess::VERB => request.now::<BucketAccess>(|bucket| identities.bucket_access(&bucket)),
        SetObjectAccess::VERB => {
            request.soon::<SetObjectAccess>(|(name, list)| identities.set_object_access(of(&name), list))
        }
        UsageOf::VERB => request.now::<UsageOf>(|(is_group, name)| {
            identities.usage(if is_group { Whose::Group(&name) } else { Whose::User(&name) })
        }),
        DeleteBucketsOf::VERB => request.now::<DeleteBucketsOf>(|group| objects.delete_buckets_of(&group)),
        Explain::VERB => request
            .now::<Explain>(|(asker, action, bucket, key)| identities.explain(&asker, action, &bucket, key.as_deref())),
        ObjectAccess::VERB => request.now::<ObjectAccess>(|name| identities.object_access(of(&name))),
        _ => return Some(request),
    }
    None
}
