//! How a command fails: a message that says what to do, and the exit code.

use std::fmt;
use std::process::ExitCode;

/// Why the program ends, as its exit code tells a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It failed; `check` found the store unsound.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// Another process holds the store.
    Held = 3,
    /// What was named does not exist.
    Missing = 4,
    /// The caller has no right to do it.
    Refused = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// What `--help` says of exit codes.
pub const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed (check: unsound, diff: different), 2 wrong usage, \
3 the store is held by another process, 4 what was named does not exist, 5 not allowed (also the answer of bucket explain), 130 stopped by Ctrl-C.";

/// A command that did not succeed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// For people.
    pub message: String,
}

/// The result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// It failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Failure { exit: Exit::Failed, message: message.into() }
    }

    /// The exit code tells all.
    pub fn silent() -> Self {
        Failure { exit: Exit::Failed, message: String::new() }
    }

    /// The command line is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Failure { exit: Exit::Usage, message: message.into() }
    }

    /// What was named does not exist.
    pub fn missing(message: impl Into<String>) -> Self {
        Failure { exit: Exit::Missing, message: message.into() }
    }

    /// The caller has no right to do it.
    pub fn refused(message: impl Into<String>) -> Self {
        Failure { exit: Exit::Refused, message: message.into() }
    }

    /// A failure of the operating system while doing `what`.
    pub fn io(what: impl fmt::Display, error: &std::io::Error) -> Self {
        let exit = if error.kind() == std::io::ErrorKind::NotFound { Exit::Missing } else { Exit::Failed };
        Failure { exit, message: format!("{what}: {error}") }
    }
}

impl From<koine::object::Error> for Failure {
    fn from(error: koine::object::Error) -> Self {
        use koine::object::ErrorKind as Kind;
        let exit = match error.kind() {
            Kind::NoSuchBucket
            | Kind::NoSuchKey
            | Kind::NoSuchUpload
            | Kind::NoSuchPart
            | Kind::NoSuchVersion
            | Kind::NoSuchSnapshot
            | Kind::NoSuchIndex
            | Kind::NoSuchGroup
            | Kind::NoSuchUser
            | Kind::NoSuchAccessKey
            | Kind::NoSuchPolicy => Exit::Missing,
            Kind::InvalidArgument | Kind::InvalidBucketName | Kind::InvalidRequest | Kind::KeyTooLong => Exit::Usage,
            Kind::AccessDenied | Kind::LogInFailed => Exit::Refused,
            _ => Exit::Failed,
        };
        Failure { exit, message: error.to_string() }
    }
}

impl From<koine::Error> for Failure {
    fn from(error: koine::Error) -> Self {
        let error = match error {
            koine::Error::Objects(of_objects) => return of_objects.into(),
            other => other,
        };
        let exit = match &error {
            held if held.is_held() => Exit::Held,
            koine::Error::BadPlace(_) | koine::Error::BadSize(_) => Exit::Usage,
            koine::Error::Missing(_) | koine::Error::MissingAt(_) => Exit::Missing,
            _ => Exit::Failed,
        };
        Failure { exit, message: error.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
