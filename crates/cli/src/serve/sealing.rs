//! What a start says of the keys that seal the secrets of access keys.
//!
//! Invariants:
//! - A file that cannot be used, or is another store's, ends the start; so does one that was named and is not there
//!   while secrets are sealed with it.
//! - A store that keeps secrets as they are, or has lost its file, says so at each start.

use koine::object::Sealing;
use koine::{Place, Store};

use crate::failure::{Failure, Outcome};

/// Looks at the keys of a store that is to be served; `named` where its file was.
pub fn check(store: &Store, named: bool) -> Outcome {
    let found = store.objects().identities().sealing().map_err(koine::Error::from)?;
    match found {
        Sealing::Lost(number) if named => {
            return Err(Failure::usage(format!(
                "secrets of this store are sealed with sealing key {number}, which the file named by --sealing-key \
                 does not have; name the right one, or leave it out and see koine identity sealing-key forget"
            )));
        }
        Sealing::Lost(number) => tracing::warn!(
            "secrets of access keys are sealed with sealing key {number}, whose file is not there: those keys let nobody in \
             until it is put back (koine identity sealing-key forget, where it is lost)"
        ),
        Sealing::AsTheyAre if *store.place() != Place::Memory => tracing::warn!(
            "secrets of access keys are stored unsealed: whoever reads the store has them; see --sealing-key"
        ),
        _ => {}
    }
    Ok(())
}
