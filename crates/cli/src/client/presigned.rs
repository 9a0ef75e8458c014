//! Addresses that carry their own signature.

use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::sign::{Signable, UNSIGNED, presigned_query};
use super::{Call, Client, date_of};
use crate::failure::{Failure, Outcome};

impl Client {
    /// An address by which an object can be got or put, and when it ends to work.
    pub fn presigned(
        &self,
        method: &'static str,
        (bucket, key): (&str, &str),
        expires: Duration,
    ) -> Outcome<(String, String)> {
        let now = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap_or_else(|_| OffsetDateTime::now_utc());
        let path = Call::new(method, bucket, key).path();
        let request = Signable {
            method,
            path: &path,
            query: &[],
            headers: &[("host".to_owned(), self.endpoint.authority.clone())],
            body_hash: UNSIGNED,
            date: &date_of(now)?,
            region: &self.endpoint.region,
        };
        let query = presigned_query(&self.keys, &request, expires.as_secs());
        let ends = time::Duration::try_from(expires).ok().and_then(|expires| now.checked_add(expires));
        let ends = ends.and_then(|ends| ends.format(&Rfc3339).ok());
        let ends = ends.ok_or_else(|| Failure::usage("--expires: later than any date"))?;
        Ok((format!("http://{}{path}?{query}", self.endpoint.authority), ends))
    }
}
