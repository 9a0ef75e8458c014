//! Groups and users, as Python sees them.

use koine::object::{self, Asker, GroupChange, NameQuery, Portable, UserChange, UserQuery, UserState};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arguments::{named, unexpected};
use crate::info::{self, moment};
use crate::store::Hold;

#[doc = help!(GroupInfo)]
#[pyclass(frozen, module = "koine", eq)]
#[derive(Clone, PartialEq)]
pub struct GroupInfo(pub object::GroupInfo);

#[pymethods]
impl GroupInfo {
    fn _state<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[staticmethod]
    fn _of_state(state: &[u8]) -> PyResult<Self> {
        Ok(GroupInfo(info::of_state(state)?))
    }

    #[doc = help!(GroupInfo name)]
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[doc = help!(GroupInfo description)]
    #[getter]
    fn description(&self) -> &str {
        &self.0.description
    }

    #[doc = help!(GroupInfo policies)]
    #[getter]
    fn policies(&self) -> Vec<String> {
        self.0.policies.clone()
    }

    #[doc = help!(GroupInfo quota_bytes)]
    #[getter]
    fn quota_bytes(&self) -> Option<u64> {
        self.0.quota_bytes
    }

    #[doc = help!(GroupInfo quota_objects)]
    #[getter]
    fn quota_objects(&self) -> Option<u64> {
        self.0.quota_objects
    }

    #[doc = help!(GroupInfo created)]
    #[getter]
    fn created<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.0.created)
    }

    fn __repr__(&self) -> String {
        format!("GroupInfo({:?})", self.0.name)
    }
}

/// Whose calls are asked about: one of these, or everyone's.
pub fn asker(user: Option<String>, access_key: Option<String>) -> PyResult<Asker> {
    match (user, access_key) {
        (None, None) => Ok(Asker::Everyone),
        (Some(user), None) => Ok(Asker::User(user)),
        (None, Some(key)) => Ok(Asker::AccessKey(key)),
        _ => Err(PyTypeError::new_err("explain() takes a user or an access_key, not both")),
    }
}

#[doc = help!(Decision)]
#[pyclass(frozen, module = "koine", eq)]
#[derive(Clone, PartialEq)]
pub struct Decision(pub object::Decision);

#[pymethods]
impl Decision {
    fn _state<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[staticmethod]
    fn _of_state(state: &[u8]) -> PyResult<Self> {
        Ok(Decision(info::of_state(state)?))
    }

    #[doc = help!(Decision allowed)]
    #[getter]
    fn allowed(&self) -> bool {
        self.0.allowed
    }

    #[doc = help!(Decision rule)]
    #[getter]
    fn rule(&self) -> String {
        self.0.rule.to_string()
    }

    fn __bool__(&self) -> bool {
        self.0.allowed
    }

    fn __repr__(&self) -> String {
        format!("Decision(allowed={}, {:?})", if self.0.allowed { "True" } else { "False" }, self.0.rule.to_string())
    }
}

#[doc = help!(UserInfo)]
#[pyclass(frozen, module = "koine", eq)]
#[derive(Clone, PartialEq)]
pub struct UserInfo(pub object::UserInfo);

#[pymethods]
impl UserInfo {
    fn _state<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[staticmethod]
    fn _of_state(state: &[u8]) -> PyResult<Self> {
        Ok(UserInfo(info::of_state(state)?))
    }

    #[doc = help!(UserInfo name)]
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[doc = help!(UserInfo display)]
    #[getter]
    fn display(&self) -> Option<&str> {
        self.0.display.as_deref()
    }

    #[doc = help!(UserInfo group)]
    #[getter]
    fn group(&self) -> &str {
        &self.0.group
    }

    #[doc = help!(UserInfo groups)]
    #[getter]
    fn groups(&self) -> Vec<String> {
        self.0.groups.clone()
    }

    #[doc = help!(UserInfo policies)]
    #[getter]
    fn policies(&self) -> Vec<String> {
        self.0.policies.clone()
    }

    #[doc = help!(UserInfo disabled)]
    #[getter]
    fn disabled(&self) -> bool {
        self.0.state != UserState::Live
    }

    #[doc = help!(UserInfo administrator)]
    #[getter]
    fn administrator(&self) -> bool {
        self.0.administrator
    }

    #[doc = help!(UserInfo has_password)]
    #[getter]
    fn has_password(&self) -> bool {
        self.0.has_password
    }

    #[doc = help!(UserInfo quota_bytes)]
    #[getter]
    fn quota_bytes(&self) -> Option<u64> {
        self.0.quota_bytes
    }

    #[doc = help!(UserInfo quota_objects)]
    #[getter]
    fn quota_objects(&self) -> Option<u64> {
        self.0.quota_objects
    }

    #[doc = help!(UserInfo created)]
    #[getter]
    fn created<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.0.created)
    }

    fn __repr__(&self) -> String {
        format!("UserInfo({:?} of {:?})", self.0.name, self.0.group)
    }
}

/// All groups whose names begin so.
pub fn groups(py: Python<'_>, hold: &Hold, prefix: &str) -> PyResult<Vec<GroupInfo>> {
    let (mut query, mut all) = (NameQuery { prefix: prefix.to_owned(), ..NameQuery::default() }, Vec::new());
    loop {
        let page = hold.call(py, |session| session.identities().groups(&query))?;
        all.extend(page.groups.into_iter().map(GroupInfo));
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(all),
        }
    }
}

/// All users, or those of a group, whose names begin so.
pub fn users(py: Python<'_>, hold: &Hold, group: Option<String>, prefix: &str) -> PyResult<Vec<UserInfo>> {
    let names = NameQuery { prefix: prefix.to_owned(), ..NameQuery::default() };
    let (mut query, mut all) = (UserQuery { group, names }, Vec::new());
    loop {
        let page = hold.call(py, |session| session.identities().users(&query))?;
        all.extend(page.users.into_iter().map(UserInfo));
        match page.next {
            Some(next) => query.names.after = Some(next),
            None => return Ok(all),
        }
    }
}

/// `rename`, `description`, `policies`, `quota_bytes`, `quota_objects`.
pub fn group_change(given: Option<&Bound<'_, PyDict>>) -> PyResult<GroupChange> {
    let mut change = GroupChange::default();
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        set_group(&mut change, "set_group", &name, &value)
            .map_err(|error| named(value.py(), "set_group", &name, error))?;
    }
    Ok(change)
}

fn set_group(change: &mut GroupChange, call: &str, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match name {
        "rename" => change.name = Some(value.extract()?),
        "description" => change.description = Some(value.extract()?),
        "policies" => change.policies = Some(value.extract()?),
        "quota_bytes" => change.quota_bytes = Some(value.extract()?),
        "quota_objects" => change.quota_objects = Some(value.extract()?),
        _ => return Err(unexpected(call, name)),
    }
    Ok(())
}

/// `rename`, `display`, `disabled`, `administrator`, `policies`, `quota_bytes`, `quota_objects`, `uid`.
pub fn user_change(given: Option<&Bound<'_, PyDict>>) -> PyResult<UserChange> {
    let mut change = UserChange::default();
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        set_user(&mut change, "set_user", &name, &value)
            .map_err(|error| named(value.py(), "set_user", &name, error))?;
    }
    Ok(change)
}

fn set_user(change: &mut UserChange, call: &str, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match name {
        "rename" => change.name = Some(value.extract()?),
        "display" => change.display = Some(value.extract()?),
        "disabled" => {
            let disabled: bool = value.extract()?;
            change.state = Some(if disabled { UserState::Disabled } else { UserState::Live });
        }
        "administrator" => change.administrator = Some(value.extract()?),
        "policies" => change.policies = Some(value.extract()?),
        "quota_bytes" => change.quota_bytes = Some(value.extract()?),
        "quota_objects" => change.quota_objects = Some(value.extract()?),
        "uid" => change.uid = Some(value.extract()?),
        _ => return Err(unexpected(call, name)),
    }
    Ok(())
}
