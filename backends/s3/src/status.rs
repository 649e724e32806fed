//! What a reply, or the lack of one, means for a conditional write.

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End<'a> {
    /// It is certain that nothing of it reached the server.
    NotSent,
    /// It was sent, or may have been, and no whole reply came.
    Lost,
    /// A reply with this HTTP status and S3 error code.
    Reply(u16, Option<&'a str>),
}

/// The condition a write was sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precondition {
    /// `If-None-Match: *`
    Absent,
    /// `If-Match: <tag>`
    Matches,
}

/// Whether the same request may have been sent before, with an outcome nobody saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// This was the only attempt.
    None,
    /// An earlier attempt may have been applied, or may still be.
    Ambiguous,
}

/// What became of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is in place.
    Applied,
    /// Its condition did not hold: it changed nothing and never will.
    Conflict,
    /// It was refused for another reason: it changed nothing and never will.
    Refused(Refusal),
    /// It may have landed, or may still land.
    Unknown,
}

/// Why a server refuses a request that it did not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It never got there.
    NotSent,
    NoBucket,
    /// The credentials are wrong, expired, or allow too little.
    Denied,
    /// The signature is wrong: by the clock, or by the secret key.
    Signature,
    /// The bucket is in another region or at another endpoint.
    Elsewhere,
    /// For a passing reason.
    Busy,
    /// The server does not know a header or operation.
    NotImplemented,
    Other,
}

/// Settles a conditional write.
///
/// After an ambiguous attempt nothing but success is certain: a failed condition may be the work of that attempt, and whatever refuses this
/// one did not undo it.
pub(crate) fn settle(end: End<'_>, precondition: Precondition, earlier: Earlier) -> Verdict {
    let verdict = match end {
        End::Lost => Verdict::Unknown,
        End::NotSent => Verdict::Refused(Refusal::NotSent),
        End::Reply(200..=299, _) => return Verdict::Applied,
        End::Reply(412, _) => Verdict::Conflict,
        // Some stores answer a failed If-None-Match so, as they do for a GET.
        End::Reply(304, _) if precondition == Precondition::Absent => Verdict::Conflict,
        End::Reply(409, None | Some("ConditionalRequestConflict" | "OperationAborted")) => match precondition {
            // Another write of the key was under way. This one is out; the caller reads the head and decides.
            Precondition::Matches => Verdict::Conflict,
            // But it does not say that the key exists now (the other write may have been a deletion), so a create has no answer yet.
            Precondition::Absent => Verdict::Unknown,
        },
        End::Reply(status, code) => match refusal(status, code) {
            // Never "absent, so create it": the key was there when its tag was read.
            Some(Refusal::Other) if status == 404 && precondition == Precondition::Matches => Verdict::Conflict,
            Some(refusal) => Verdict::Refused(refusal),
            None => Verdict::Unknown,
        },
    };
    match earlier {
        Earlier::None => verdict,
        Earlier::Ambiguous => Verdict::Unknown,
    }
}

/// The refusal in a reply other than success, or `None` where the server may have done the work all the same.
pub(crate) fn refusal(status: u16, code: Option<&str>) -> Option<Refusal> {
    Some(match (status, code.unwrap_or_default()) {
        (404, "NoSuchBucket") => Refusal::NoBucket,
        (400..=403, "RequestTimeTooSkewed" | "SignatureDoesNotMatch") => Refusal::Signature,
        (401 | 403, _) | (400, "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired" | "InvalidAccessKeyId") => Refusal::Denied,
        (301 | 302 | 307 | 308, _) | (400, "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException") => Refusal::Elsewhere,
        (429, _) | (400, "RequestTimeout") => Refusal::Busy,
        // The one 5xx that a server gives before it acts.
        (501, "NotImplemented") => Refusal::NotImplemented,
        // Given by gateways, which may have passed the request on.
        (408, _) => return None,
        (300..=499, _) => Refusal::Other,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reply_has_its_meaning() {
        use Precondition::{Absent, Matches};
        use Verdict::{Applied, Conflict, Refused, Unknown};
        let reply = End::Reply;
        // The end; the verdict with If-None-Match: *; the verdict with If-Match.
        let table = [
            (reply(200, None), Applied, Applied),
            (reply(204, None), Applied, Applied),
            (reply(412, Some("PreconditionFailed")), Conflict, Conflict),
            (reply(412, None), Conflict, Conflict),
            (reply(304, None), Conflict, Refused(Refusal::Other)),
            (reply(409, Some("ConditionalRequestConflict")), Unknown, Conflict),
            (reply(409, Some("OperationAborted")), Unknown, Conflict),
            (reply(409, None), Unknown, Conflict),
            (reply(409, Some("InvalidBucketState")), Refused(Refusal::Other), Refused(Refusal::Other)),
            (reply(404, Some("NoSuchKey")), Refused(Refusal::Other), Conflict),
            (reply(404, None), Refused(Refusal::Other), Conflict),
            (reply(404, Some("NoSuchBucket")), Refused(Refusal::NoBucket), Refused(Refusal::NoBucket)),
            (reply(403, Some("AccessDenied")), Refused(Refusal::Denied), Refused(Refusal::Denied)),
            (reply(403, None), Refused(Refusal::Denied), Refused(Refusal::Denied)),
            (reply(401, None), Refused(Refusal::Denied), Refused(Refusal::Denied)),
            (reply(400, Some("ExpiredToken")), Refused(Refusal::Denied), Refused(Refusal::Denied)),
            (reply(403, Some("RequestTimeTooSkewed")), Refused(Refusal::Signature), Refused(Refusal::Signature)),
            (reply(403, Some("SignatureDoesNotMatch")), Refused(Refusal::Signature), Refused(Refusal::Signature)),
            (reply(301, Some("PermanentRedirect")), Refused(Refusal::Elsewhere), Refused(Refusal::Elsewhere)),
            (reply(307, None), Refused(Refusal::Elsewhere), Refused(Refusal::Elsewhere)),
            (reply(429, Some("SlowDown")), Refused(Refusal::Busy), Refused(Refusal::Busy)),
            (reply(400, Some("RequestTimeout")), Refused(Refusal::Busy), Refused(Refusal::Busy)),
            (reply(400, Some("InvalidRequest")), Refused(Refusal::Other), Refused(Refusal::Other)),
            (reply(405, None), Refused(Refusal::Other), Refused(Refusal::Other)),
            (reply(408, None), Unknown, Unknown),
            (reply(500, Some("InternalError")), Unknown, Unknown),
            (reply(503, Some("SlowDown")), Unknown, Unknown),
            (reply(501, Some("NotImplemented")), Refused(Refusal::NotImplemented), Refused(Refusal::NotImplemented)),
            (reply(501, None), Unknown, Unknown),
            (reply(502, None), Unknown, Unknown),
            (reply(504, None), Unknown, Unknown),
            (reply(100, None), Unknown, Unknown),
            (reply(600, None), Unknown, Unknown),
            (End::Lost, Unknown, Unknown),
            (End::NotSent, Refused(Refusal::NotSent), Refused(Refusal::NotSent)),
        ];
        for (end, absent, matches) in table {
            assert_eq!(settle(end, Absent, Earlier::None), absent, "{end:?}, If-None-Match");
            assert_eq!(settle(end, Matches, Earlier::None), matches, "{end:?}, If-Match");
            for precondition in [Absent, Matches] {
                let after = settle(end, precondition, Earlier::Ambiguous);
                let expected = if matches == Applied { Applied } else { Unknown };
                assert_eq!(after, expected, "{end:?}, {precondition:?}, after an ambiguous attempt");
            }
        }
    }

    #[test]
    fn no_status_is_left_out_and_none_but_success_applies() {
        for status in 0..=999 {
            for precondition in [Precondition::Absent, Precondition::Matches] {
                let verdict = settle(End::Reply(status, None), precondition, Earlier::None);
                assert_eq!(verdict == Verdict::Applied, (200..300).contains(&status), "{status}");
                if !(200..500).contains(&status) {
                    assert_eq!(verdict, Verdict::Unknown, "{status}");
                }
            }
        }
    }
}
