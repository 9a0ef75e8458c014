//! The local store: what every call that runs here shares, and how it reads.
//!
//! Invariant: nothing is kept here that correctness needs: any number of processes may use one store below at once.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use koine_env::{Clock, OsRandom, Random, SystemClock, Timestamp};
use koine_kv::{Batch, Condition, Durability, ErrorKind as KvErrorKind, Kv, Operation, View};

use crate::access_notes::Reads;
use crate::action::StandIns;
use crate::attempts::Attempts;
use crate::caller::{Caller, Circumstances};
use crate::error::{Error, ErrorKind, Result};
use crate::keys;
use crate::lookup::read_value;
use crate::record::{CATALOGUE_FORMAT, HeadRecord};
use crate::sealing::SealingKeys;
use crate::sums::Sums;
use crate::turns::Turns;

/// The key that may do everything.
#[derive(Clone, PartialEq, Eq)]
pub struct RootKey {
    /// What requests name.
    pub access_key: String,
    /// What they are signed with.
    pub secret: String,
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootKey({:?})", self.access_key)
    }
}

/// Buckets and objects over a store below, as a caller sees them. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Local {
    kv: Arc<dyn Kv>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    caller: Caller,
    circumstances: Arc<Circumstances>,
    attempts: Arc<Attempts>,
    sealing: Arc<Mutex<SealingKeys>>,
    turns: Arc<Turns>,
    sums: Arc<Sums>,
    reads: Arc<Reads>,
    /// What a door's call asks for in the place of what the library's does.
    stand_ins: StandIns,
    /// What is read instead of the newest version.
    pinned: Option<Arc<dyn View>>,
    /// What a change survives when it is answered.
    durability: Durability,
    /// The store below answers at once, or not at all.
    is_unwaiting: bool,
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Local({})", self.kv.profile().name)
    }
}

impl Local {
    /// Opens the objects of a store; makes the catalogue when the store is new. One of an older format is
    /// `Unsupported`, until [`Objects::upgrade`](crate::Objects::upgrade) was called.
    pub fn open(kv: Arc<dyn Kv>, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Result<Self> {
        let objects = Local::over(kv, clock, random);
        match objects.read_head()? {
            Some(head) if head.format < CATALOGUE_FORMAT => {
                let message = format!(
                    "buckets and objects have format {}, this program's is {CATALOGUE_FORMAT}; `koine upgrade STORE` gives it to them, and changes nothing else",
                    head.format
                );
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            Some(_) => {}
            None => objects.make_catalogue()?,
        }
        Ok(objects)
    }

    /// Those of a store, of any format, that is looked at and not changed (`koine check`, `koine stat`). The store below
    /// is one that can be read only, or the caller changes nothing.
    pub fn inspect(kv: Arc<dyn Kv>) -> Self {
        Local::over(kv, Arc::new(SystemClock::new()), Arc::new(OsRandom))
    }

    /// Those of a store whose catalogue nobody has looked at.
    pub(crate) fn over(kv: Arc<dyn Kv>, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        Local {
            kv,
            clock,
            random,
            caller: Caller::Owner,
            circumstances: Arc::default(),
            attempts: Arc::default(),
            sealing: Arc::default(),
            turns: Arc::default(),
            sums: Arc::default(),
            reads: Arc::default(),
            stand_ins: &[],
            pinned: None,
            durability: Durability::Sync,
            is_unwaiting: false,
        }
    }

    pub(crate) fn read_head(&self) -> Result<Option<HeadRecord>> {
        let view = self.kv.view()?;
        let head = read_value(view.as_ref(), keys::CATALOGUE, &keys::catalogue_head())?;
        head.map(|(_, bytes)| HeadRecord::decode(&bytes)).transpose()
    }

    fn make_catalogue(&self) -> Result<()> {
        let head =
            HeadRecord { format: CATALOGUE_FORMAT, created: self.now(), public: false, kept: Vec::new() }.encode();
        let mut batch = Batch::new().when(Condition::Absent { space: keys::CATALOGUE, key: keys::catalogue_head() });
        if !self.kv.view()?.has_space(keys::CATALOGUE)? {
            batch = batch.then(Operation::CreateSpace { space: keys::CATALOGUE });
        }
        match self.kv.commit(batch.put(keys::CATALOGUE, keys::catalogue_head(), head), Durability::Sync) {
            Ok(_) => Ok(()),
            // Another process opened the same new store at the same time.
            Err(error) if error.kind() == KvErrorKind::Refused && self.read_head()?.is_some() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The store below.
    pub fn kv(&self) -> &Arc<dyn Kv> {
        &self.kv
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Where changes that met others wait for each other.
    pub(crate) fn turns(&self) -> &Arc<Turns> {
        &self.turns
    }

    /// What users and groups hold, as it was found last.
    pub(crate) fn sums(&self) -> &Sums {
        &self.sums
    }

    /// What was read and not written down yet.
    pub(crate) fn reads(&self) -> &Reads {
        &self.reads
    }

    /// The same, reading one version; what would change something is `ReadOnly`.
    pub(crate) fn at(&self, view: Arc<dyn View>) -> Local {
        Local { pinned: Some(view), ..self.clone() }
    }

    /// The same calls over a store below, and a version that is read, which do not wait.
    pub(crate) fn unwaiting(&self, kv: Arc<dyn Kv>, pinned: Option<Arc<dyn View>>) -> Local {
        Local { kv, pinned, is_unwaiting: true, ..self.clone() }
    }

    /// Whether the store below answers at once, or not at all.
    pub(crate) fn is_unwaiting(&self) -> bool {
        self.is_unwaiting
    }

    /// What is read instead of the newest version.
    pub(crate) fn pinned_view(&self) -> Option<&Arc<dyn View>> {
        self.pinned.as_ref()
    }

    /// Whether this reads one version instead of the newest.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned.is_some()
    }

    /// `ReadOnly` where this reads a pinned version: what was cannot be changed.
    pub(crate) fn check_not_pinned(&self) -> Result<()> {
        match &self.pinned {
            None => Ok(()),
            Some(view) => {
                let message = format!("version {} of the store is pinned, and can only be read", view.version().0);
                Err(Error::new(ErrorKind::ReadOnly, message))
            }
        }
    }

    pub(crate) fn random(&self) -> &dyn Random {
        self.random.as_ref()
    }

    /// The same store, for another caller. What opened the store is its owner.
    #[must_use]
    pub fn as_caller(&self, caller: Caller) -> Local {
        Local { caller, ..self.clone() }
    }

    /// The same store and caller, for requests of which a door knows this.
    #[must_use]
    pub fn under(&self, circumstances: Circumstances) -> Local {
        Local { circumstances: Arc::new(circumstances), ..self.clone() }
    }

    /// The same store and caller, whose calls need these rights in the place of their own. For doors, whose calls are made of
    /// those of the library and have names of their own in policies.
    #[must_use]
    pub fn with_stand_ins(&self, stand_ins: StandIns) -> Local {
        Local { stand_ins, ..self.clone() }
    }

    pub(crate) fn stand_ins(&self) -> StandIns {
        self.stand_ins
    }

    /// The same store and caller, whose changes are answered as soon as they survive this: with [`Durability::Written`] the
    /// end of the process, with [`Durability::Memory`] nothing yet. What is synced later, by whomever, makes them survive a
    /// power cut, as everything does unless it is asked for otherwise here. A power cut before that leaves each whole or not
    /// there.
    #[must_use]
    pub fn with_durability(&self, durability: Durability) -> Local {
        Local { durability, ..self.clone() }
    }

    /// What a change survives when it is answered.
    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    /// The same store, whose secrets of access keys are sealed with these keys. Without, new ones are kept as they are
    /// and sealed ones do not open. What another process changes in their file is taken when a secret needs it.
    #[must_use]
    pub fn with_sealing_keys(&self, keys: SealingKeys) -> Local {
        Local { sealing: Arc::new(Mutex::new(keys)), ..self.clone() }
    }

    /// The file of the sealing keys, where there is one.
    pub fn sealing_file(&self) -> Option<std::path::PathBuf> {
        self.sealing_to_change().file().map(std::path::Path::to_owned)
    }

    /// The sealing keys as they are now.
    pub(crate) fn sealing(&self) -> Result<SealingKeys> {
        let mut keys = self.sealing_to_change();
        keys.read_once()?;
        Ok(keys.clone())
    }

    /// What `use_keys` makes of the sealing keys; once more where it fails and the file has others by now, because
    /// another process changed it.
    pub(crate) fn with_sealing<T>(&self, use_keys: impl Fn(&SealingKeys) -> Result<T>) -> Result<T> {
        let failed = match use_keys(&self.sealing()?) {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        if self.sealing_to_change().have_changed()? { use_keys(&self.sealing()?) } else { Err(failed) }
    }

    pub(crate) fn sealing_to_change(&self) -> MutexGuard<'_, SealingKeys> {
        self.sealing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn attempts(&self) -> &Arc<Attempts> {
        &self.attempts
    }

    pub(crate) fn circumstances(&self) -> &Circumstances {
        &self.circumstances
    }

    /// Who the calls of this are made by.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }
}
