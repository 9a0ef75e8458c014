//! A store that is open: `koine.connect` and `Session`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use koine::kv::wire::Key;
use koine::object::{BucketQuery, Caller, KeyOptions, Login, Objects, Token, Whose, read_private_file};
use koine::{OpenOptions, Timeouts};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{count, maybe_count};
use crate::bucket::Bucket;
use crate::errors;
use crate::identity::{self, Decision, GroupInfo, UserInfo};
use crate::info::{self, BucketInfo, moment};
use crate::listing::BucketListing;
use crate::patience::Limit;
use crate::store::Hold;
use crate::transact::{self, Transaction};

/// So long a server may take to let a client in where nothing else is said, in seconds.
const CONNECT_TIMEOUT: f64 = 10.0;

/// For ever, nearly: time is added to it.
const LONG: Duration = Duration::from_secs(10 * 365 * 86400);

#[doc = help!(connect)]
#[pyfunction]
#[pyo3(
    signature = (
        place, *, create=false, size=None, memory=None, key_file=None, token=None, connect_timeout=CONNECT_TIMEOUT,
        timeout=None
    ),
    text_signature = "(place, *, create=False, size=None, memory=None, key_file=None, token=None, connect_timeout=10.0, timeout=None)"
)]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub fn connect(
    py: Python<'_>,
    place: PathBuf,
    create: bool,
    #[pyo3(from_py_with = maybe_count)] size: Option<u64>,
    #[pyo3(from_py_with = maybe_count)] memory: Option<u64>,
    key_file: Option<PathBuf>,
    token: Option<String>,
    connect_timeout: Option<f64>,
    timeout: Option<f64>,
) -> PyResult<Session> {
    let place = place.into_os_string().into_string();
    let place = place.map_err(|_| errors::raised("InvalidArgument", "the place of a store is not UTF-8"))?;
    let connecting = Limit::of_seconds("connect_timeout", connect_timeout)?;
    let limit = Limit::of_seconds("timeout", timeout)?;
    connecting
        .detached(py, || {
            let key = key_file.map(|path| read_key(&path)).transpose()?;
            let timeouts = Timeouts { connect: connecting.timeout.unwrap_or(LONG), ..Timeouts::default() };
            let options = OpenOptions { create, size_max: size, memory, key, timeouts, ..OpenOptions::default() };
            Ok(Session { hold: Arc::new(Hold::open(&place, &options, limit)?), login: None })
        })
        .and_then(|session| match token {
            Some(token) => session.as_token(py, &token),
            None => Ok(session),
        })
}

/// The longest file with a key, in bytes.
const KEY_FILE_LEN_MAX: u64 = 64 << 10;

fn read_key(path: &std::path::Path) -> PyResult<Key> {
    let cannot = |error: std::io::Error| errors::of_system(&error, &format!("cannot read {}: {error}", path.display()));
    let text = read_private_file(path, KEY_FILE_LEN_MAX).map_err(cannot)?;
    Key::new(text.trim_ascii()).map_err(|error| errors::raised("InvalidArgument", error.message()))
}

#[doc = help!(Session)]
#[pyclass(frozen, module = "koine")]
pub struct Session {
    hold: Arc<Hold>,
    /// Of a session of somebody who logged in.
    login: Option<Login>,
}

impl Session {
    fn of_caller(&self, caller: Caller, login: Option<Login>) -> PyResult<Session> {
        Ok(Session { hold: Arc::new(self.hold.of_caller(caller)?), login })
    }
}

#[pymethods]
impl Session {
    #[doc = help!(Session place)]
    #[getter]
    fn place(&self) -> &str {
        self.hold.place()
    }

    #[doc = help!(Session closed)]
    #[getter]
    fn closed(&self) -> bool {
        self.hold.is_closed()
    }

    #[doc = help!(Session is_owner)]
    #[getter]
    fn is_owner(&self) -> PyResult<bool> {
        self.hold.is_owner()
    }

    #[doc = help!(Session close)]
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = py.detach(|| self.hold.close());
        // What files have read ahead is given out no more.
        py.import("koine._files")?.getattr("session_closed")?.call1((self.hold.number(),))?;
        closed
    }

    #[doc = help!(Session bucket)]
    fn bucket(&self, name: String) -> Bucket {
        Bucket::new(Arc::clone(&self.hold), name)
    }

    #[doc = help!(Session create_bucket)]
    fn create_bucket(&self, py: Python<'_>, name: String) -> PyResult<Bucket> {
        self.hold.call(py, |session| session.create_bucket(&name).wait())?;
        Ok(self.bucket(name))
    }

    #[doc = help!(Session delete_buckets)]
    fn delete_buckets(&self, py: Python<'_>, group: &str) -> PyResult<u64> {
        self.hold.call(py, |session| session.delete_buckets_of(group))
    }

    #[doc = help!(Session pin)]
    fn pin(&self, py: Python<'_>) -> PyResult<Session> {
        Ok(Session { hold: Arc::new(self.hold.pin(py)?), login: self.login.clone() })
    }

    #[doc = help!(Session pinned_version)]
    #[getter]
    fn pinned_version(&self) -> PyResult<Option<u64>> {
        self.hold.pinned_version()
    }

    #[doc = help!(Session transact)]
    fn transact(&self, py: Python<'_>, body: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        transact::transact(py, &self.hold, body)
    }

    #[doc = help!(Session transaction)]
    fn transaction(&self, py: Python<'_>) -> PyResult<Transaction> {
        Transaction::begin(py, &self.hold)
    }

    #[doc = help!(Session delete_bucket)]
    fn delete_bucket(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.hold.call(py, |session| session.delete_bucket(name).wait())
    }

    #[doc = help!(Session bucket_info)]
    fn bucket_info(&self, py: Python<'_>, name: &str) -> PyResult<BucketInfo> {
        let info = self.hold.call(py, |session| session.head_bucket(name))?;
        Ok(BucketInfo(info))
    }

    #[doc = help!(Session buckets)]
    #[pyo3(signature = (prefix="", *, after=None, group=None))]
    fn buckets(&self, prefix: &str, after: Option<String>, group: Option<String>) -> BucketListing {
        let query = BucketQuery { prefix: prefix.to_owned(), after, group, ..BucketQuery::default() };
        BucketListing::new(Arc::clone(&self.hold), query)
    }

    #[doc = help!(Session log_in)]
    #[pyo3(signature = (user, password, *, seconds=43200))]
    fn log_in(
        &self,
        py: Python<'_>,
        user: &str,
        password: &str,
        #[pyo3(from_py_with = count)] seconds: u64,
    ) -> PyResult<Session> {
        let (login, caller) = self.hold.call(py, |session| {
            let identities = session.identities();
            let login = identities.log_in(user, password, Duration::from_secs(seconds))?;
            let caller = identities.by_token(&login.token)?;
            Ok((login, caller))
        })?;
        self.of_caller(caller, Some(login))
    }

    #[doc = help!(Session as_token)]
    fn as_token(&self, py: Python<'_>, token: &str) -> PyResult<Session> {
        let caller = self.hold.call(py, |session| session.identities().by_token(&Token::new(token)))?;
        self.of_caller(caller, None)
    }

    #[doc = help!(Session log_out)]
    #[pyo3(signature = (token=None))]
    fn log_out(&self, py: Python<'_>, token: Option<String>) -> PyResult<()> {
        let own = || self.login.as_ref().map(|login| login.token.clone());
        let token = token.map(Token::new).or_else(own);
        let token = token.ok_or_else(|| errors::raised("InvalidArgument", "nobody has logged in; name a token"))?;
        self.hold.call(py, |session| session.identities().log_out(&token).wait())
    }

    #[doc = help!(Session user)]
    #[getter]
    fn user(&self) -> Option<&str> {
        self.login.as_ref().map(|login| login.user.as_str())
    }

    #[doc = help!(Session token)]
    #[getter]
    fn token(&self) -> Option<&str> {
        self.login.as_ref().map(|login| login.token.expose())
    }

    #[doc = help!(Session token_expires)]
    #[getter]
    fn token_expires<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.login.as_ref().map(|login| moment(py, login.expires)).transpose()
    }

    #[doc = help!(Session create_group)]
    #[pyo3(signature = (name, description=""))]
    fn create_group(&self, py: Python<'_>, name: &str, description: &str) -> PyResult<GroupInfo> {
        self.hold.call(py, |session| session.identities().create_group(name, description).wait()).map(GroupInfo)
    }

    #[doc = help!(Session delete_group)]
    fn delete_group(&self, py: Python<'_>, name: &str) -> PyResult<(u64, u64)> {
        let gone = self.hold.call(py, |session| session.identities().delete_group(name))?;
        Ok((gone.users, gone.buckets))
    }

    #[doc = help!(Session group)]
    fn group(&self, py: Python<'_>, name: &str) -> PyResult<GroupInfo> {
        self.hold.call(py, |session| session.identities().group(name)).map(GroupInfo)
    }

    #[doc = help!(Session groups)]
    #[pyo3(signature = (prefix=""))]
    fn groups(&self, py: Python<'_>, prefix: &str) -> PyResult<Vec<GroupInfo>> {
        identity::groups(py, &self.hold, prefix)
    }

    #[doc = help!(Session group_usage)]
    fn group_usage<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        info::usage(py, self.hold.call(py, |session| session.identities().usage(Whose::Group(name)))?)
    }

    #[doc = help!(Session user_usage)]
    fn user_usage<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        info::usage(py, self.hold.call(py, |session| session.identities().usage(Whose::User(name)))?)
    }

    #[doc = help!(Session explain)]
    #[pyo3(signature = (action, bucket, key=None, *, user=None, access_key=None))]
    fn explain(
        &self,
        py: Python<'_>,
        action: &str,
        bucket: &str,
        key: Option<&str>,
        user: Option<String>,
        access_key: Option<String>,
    ) -> PyResult<Decision> {
        let asker = identity::asker(user, access_key)?;
        let ask = |session: &Objects| session.identities().explain(&asker, action.parse()?, bucket, key);
        self.hold.call(py, ask).map(Decision)
    }

    #[doc = help!(Session set_group)]
    #[pyo3(signature = (name, **change))]
    fn set_group(&self, py: Python<'_>, name: &str, change: Option<&Bound<'_, PyDict>>) -> PyResult<GroupInfo> {
        let change = identity::group_change(change)?;
        self.hold.call(py, |session| session.identities().set_group(name, change).wait()).map(GroupInfo)
    }

    #[doc = help!(Session create_user)]
    #[pyo3(signature = (group, name, password=None))]
    fn create_user(&self, py: Python<'_>, group: &str, name: &str, password: Option<&str>) -> PyResult<UserInfo> {
        self.hold.call(py, |session| session.identities().create_user(group, name, password)).map(UserInfo)
    }

    #[doc = help!(Session delete_user)]
    fn delete_user(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.hold.call(py, |session| session.identities().delete_user(name))
    }

    #[doc = help!(Session user_info)]
    fn user_info(&self, py: Python<'_>, name: &str) -> PyResult<UserInfo> {
        self.hold.call(py, |session| session.identities().user(name)).map(UserInfo)
    }

    #[doc = help!(Session users)]
    #[pyo3(signature = (group=None, *, prefix=""))]
    fn users(&self, py: Python<'_>, group: Option<String>, prefix: &str) -> PyResult<Vec<UserInfo>> {
        identity::users(py, &self.hold, group, prefix)
    }

    #[doc = help!(Session set_user)]
    #[pyo3(signature = (name, **change))]
    fn set_user(&self, py: Python<'_>, name: &str, change: Option<&Bound<'_, PyDict>>) -> PyResult<UserInfo> {
        let change = identity::user_change(change)?;
        self.hold.call(py, |session| session.identities().set_user(name, change).wait()).map(UserInfo)
    }

    #[doc = help!(Session set_password)]
    fn set_password(&self, py: Python<'_>, name: &str, password: &str) -> PyResult<()> {
        self.hold.call(py, |session| session.identities().set_password(name, password))
    }

    #[doc = help!(Session change_password)]
    fn change_password(&self, py: Python<'_>, name: &str, old: &str, new: &str) -> PyResult<()> {
        self.hold.call(py, |session| session.identities().change_password(name, old, new))
    }

    #[doc = help!(Session tokens)]
    fn tokens(&self, py: Python<'_>, user: &str) -> PyResult<Vec<String>> {
        let tokens = self.hold.call(py, |session| session.identities().tokens_of(user))?;
        Ok(tokens.into_iter().map(|token| token.id).collect())
    }

    #[doc = help!(Session delete_token)]
    fn delete_token(&self, py: Python<'_>, user: &str, id: &str) -> PyResult<()> {
        self.hold.call(py, |session| session.identities().delete_token(user, id).wait())
    }

    #[doc = help!(Session add_member)]
    #[pyo3(signature = (group, user, *, administrator=false))]
    fn add_member(&self, py: Python<'_>, group: &str, user: &str, administrator: bool) -> PyResult<()> {
        self.hold.call(py, |session| session.identities().add_member(group, user, administrator).wait())
    }

    #[doc = help!(Session remove_member)]
    fn remove_member(&self, py: Python<'_>, group: &str, user: &str) -> PyResult<()> {
        self.hold.call(py, |session| session.identities().remove_member(group, user).wait())
    }

    #[doc = help!(Session create_key)]
    #[pyo3(signature = (user, *, seconds=None, description=None))]
    fn create_key(
        &self,
        py: Python<'_>,
        user: &str,
        #[pyo3(from_py_with = maybe_count)] seconds: Option<u64>,
        description: Option<String>,
    ) -> PyResult<(String, String)> {
        let options = KeyOptions { life: seconds.map(Duration::from_secs), description, ..KeyOptions::default() };
        let (key, secret) = self.hold.call(py, |session| session.identities().create_key(user, options).wait())?;
        Ok((key, secret.expose().to_owned()))
    }

    #[doc = help!(Session keys)]
    fn keys(&self, py: Python<'_>, user: &str) -> PyResult<Vec<String>> {
        let keys = self.hold.call(py, |session| session.identities().keys_of(user))?;
        Ok(keys.into_iter().map(|key| key.access_key).collect())
    }

    #[doc = help!(Session delete_key)]
    fn delete_key(&self, py: Python<'_>, user: &str, access_key: &str) -> PyResult<()> {
        self.hold.call(py, |session| session.identities().delete_key(user, access_key).wait())
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("Session({:?}{})", self.hold.place(), if self.hold.is_closed() { ", closed" } else { "" })
    }
}
