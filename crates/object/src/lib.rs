//! Buckets, objects, versions, multipart and conditions over any Kv.
