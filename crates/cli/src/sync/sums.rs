//! The CRC-64/NVME of all bytes of a file or an object: the stored one, or computed from its bytes.

use std::fs::File;
use std::io::Read;

use crate::cp::checksum;
use crate::cp::store_copy::crc_in;
use crate::failure::{Failure, Outcome};
use crate::location::Location;
use crate::target::{Target, failed};
use crate::targets::Targets;

/// How much is read at once.
const PIECE_LEN: u64 = 8 << 20;

/// Of one file or object.
pub fn of(targets: &Targets, name: &Location) -> Outcome<u64> {
    match name {
        Location::Local(path) => of_file(path),
        Location::Object { scheme, bucket, key } => match targets.of(scheme)? {
            Target::Store(store) => {
                let reader = store.objects().get(bucket, key).map_err(failed)?;
                match crc_in(&reader.info().checksums) {
                    Some(sum) => Ok(sum),
                    None => of_pieces(reader.info().size, |offset, length| {
                        let mut buffer = vec![0; usize::try_from(length).unwrap_or(0)];
                        let mut filled = 0;
                        while filled < buffer.len() {
                            let rest = buffer.get_mut(filled..).unwrap_or_default();
                            match reader.read(offset + filled as u64, rest).map_err(failed)? {
                                0 => return Err(Failure::failed(format!("{name} is shorter than recorded"))),
                                count => filled += count,
                            }
                        }
                        Ok(checksum::of(&buffer))
                    }),
                }
            }
            Target::S3 { client, runtime } => {
                let found = runtime.block_on(client.head(bucket, key))?;
                match found.checksum {
                    Some(sum) => Ok(sum),
                    None => of_pieces(found.size, |offset, length| {
                        let body = runtime.block_on(client.get(bucket, key, &found.etag, offset, length))?;
                        Ok(checksum::of(&body))
                    }),
                }
            }
        },
    }
}

fn of_pieces(size: u64, mut sum: impl FnMut(u64, u64) -> Outcome<u64>) -> Outcome<u64> {
    let mut sums = Vec::new();
    for index in 0..size.div_ceil(PIECE_LEN) {
        let (offset, length) = (index * PIECE_LEN, PIECE_LEN.min(size - index * PIECE_LEN));
        sums.push((sum(offset, length)?, length));
    }
    Ok(checksum::join(sums))
}

fn of_file(path: &std::path::Path) -> Outcome<u64> {
    let cannot = |error: &std::io::Error| Failure::io(path.display(), error);
    let mut file = File::open(path).map_err(|error| cannot(&error))?;
    let mut buffer = vec![0; 1 << 20];
    let mut sums = Vec::new();
    loop {
        match file.read(&mut buffer).map_err(|error| cannot(&error))? {
            0 => return Ok(checksum::join(sums)),
            count => sums.push((checksum::of(buffer.get(..count).unwrap_or_default()), count as u64)),
        }
    }
}
