//! `koine identity sealing-key make`, `rotate`, `forget`: the keys that seal the secrets of access
//! keys, for who owns the store.

use std::path::PathBuf;

use koine::Store;
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::target::{TargetArgs, failed};

/// Does something with the store, and tells the file of its sealing keys.
fn with_file<T>(
    reach: &TargetArgs,
    act: impl FnOnce(&Store) -> koine::object::Result<T>,
) -> Outcome<(T, Option<PathBuf>)> {
    let store = reach.store()?;
    let done = act(&store).map_err(failed);
    let file = store.objects().sealing_file();
    store.close()?;
    Ok((done?, file))
}

fn named(file: Option<PathBuf>) -> Outcome<PathBuf> {
    file.ok_or_else(|| Failure::usage("the store has no file of sealing keys: name it with --sealing-key FILE"))
}

/// Begins to seal: the secrets that are made from now on.
pub fn make(reach: &TargetArgs, output: Output) -> Outcome {
    let (number, file) = with_file(reach, |store| store.objects().identities().make_sealing_key())?;
    let file = named(file)?;
    output.people(format!(
        "secrets are sealed with sealing key {number}, in {}: keep a copy of it apart from the store; koine identity \
         sealing-key rotate seals those that were made before",
        file.display()
    ))?;
    output.json(&json!({ "type": "sealing_key", "number": number, "file": file.to_string_lossy() }))
}

/// Seals all secrets anew.
pub fn rotate(reach: &TargetArgs, output: Output) -> Outcome {
    let (sealed, file) = with_file(reach, |store| store.objects().identities().rotate_sealing_key())?;
    let file = named(file)?;
    output.people(format!(
        "{sealed} secrets are sealed with a new key, in {}: copy it anew; what older copies hold opens nothing of the store",
        file.display()
    ))?;
    output.json(&json!({ "type": "rotated", "secrets": sealed, "file": file.to_string_lossy() }))
}

/// Removes what nobody can open any more.
pub fn forget(reach: &TargetArgs, output: Output) -> Outcome {
    let (lost, _) = with_file(reach, |store| store.objects().identities().forget_lost_secrets())?;
    output.people(format!("{lost} access keys were removed: their secrets could not be opened any more"))?;
    output.json(&json!({ "type": "forgotten", "keys": lost }))
}
