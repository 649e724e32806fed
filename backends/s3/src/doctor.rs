//! What a bucket is set to do by itself, as far as it matters to a catalog.

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::types::{BucketVersioningStatus, ExpirationStatus, LifecycleRule, ReplicationRuleStatus, TransitionStorageClass};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use headwater_core::authority::{Finding, Severity};

use crate::authority::S3Authority;
use crate::connection::Connection;
use crate::failure::Failure;

/// Looks at the bucket's versioning, lifecycle rules and replication. 3 requests in 1 round trip; nothing is written. What cannot be read
/// is a finding, not an error.
///
/// Whether the server keeps its promises about conditional writes is for [`probe`](crate::probe()) to say.
pub async fn doctor(authority: &S3Authority) -> Vec<Finding> {
    let connection = authority.0.as_ref();
    let (versioning, lifecycle, replication) = futures::join!(versioning(connection), lifecycle(connection), replication(connection));
    vec![versioning, lifecycle, replication]
}

const VERSIONING: &str = "versioning";
const LIFECYCLE: &str = "lifecycle rules";
const REPLICATION: &str = "replication";

async fn versioning(connection: &Connection) -> Finding {
    let request = match connection.resolved().await {
        Ok(resolved) => resolved.reads.get_bucket_versioning().bucket(&connection.settings.bucket),
        Err(error) => return unknown(VERSIONING, error.to_string()),
    };
    match request.send().await {
        Ok(reply) if reply.status() == Some(&BucketVersioningStatus::Enabled) => warning(
            VERSIONING,
            "is on: every commit leaves an older version of the head, and vacuum frees no space; add a lifecycle rule that expires \
             noncurrent versions"
                .to_owned(),
        ),
        Ok(_) => good(VERSIONING, "is off"),
        Err(error) => untold(VERSIONING, &error),
    }
}

async fn lifecycle(connection: &Connection) -> Finding {
    let request = match connection.resolved().await {
        Ok(resolved) => resolved.reads.get_bucket_lifecycle_configuration().bucket(&connection.settings.bucket),
        Err(error) => return unknown(LIFECYCLE, error.to_string()),
    };
    match request.send().await {
        Ok(reply) => {
            let prefix = &connection.settings.prefix;
            let named: Vec<&str> =
                reply.rules().iter().filter(|rule| harms(rule, prefix)).map(|rule| rule.id().unwrap_or("without a name")).collect();
            if named.is_empty() {
                return good(LIFECYCLE, "none deletes or archives a catalog's objects");
            }
            let message = format!("delete or archive objects of this catalog ({}); leave its prefix out of them", named.join(", "));
            warning(LIFECYCLE, message)
        }
        Err(error) if error.code() == Some("NoSuchLifecycleConfiguration") => good(LIFECYCLE, "there are none"),
        Err(error) => untold(LIFECYCLE, &error),
    }
}

/// A rule that deletes current objects below the prefix by age, or moves them to where a read does not find them at once.
fn harms(rule: &LifecycleRule, catalog: &str) -> bool {
    #[allow(deprecated, reason = "old rules carry their prefix here")]
    let prefix = rule.filter().and_then(|filter| filter.prefix().or_else(|| filter.and()?.prefix())).or_else(|| rule.prefix());
    let prefix = prefix.unwrap_or_default();
    let root = if catalog.is_empty() { String::new() } else { format!("{catalog}/") };
    // A catalog's objects have no tags.
    let tagged = rule.filter().is_some_and(|filter| filter.tag().is_some() || filter.and().is_some_and(|and| !and.tags().is_empty()));
    let touches = (prefix.starts_with(&root) || root.starts_with(prefix)) && !tagged;
    let expires = rule.expiration().is_some_and(|expiration| expiration.days().is_some() || expiration.date().is_some());
    let archives = rule.transitions().iter().filter_map(|transition| transition.storage_class());
    let archives = archives.into_iter().any(|class| matches!(class, TransitionStorageClass::Glacier | TransitionStorageClass::DeepArchive));
    *rule.status() == ExpirationStatus::Enabled && touches && (expires || archives)
}

async fn replication(connection: &Connection) -> Finding {
    let request = match connection.resolved().await {
        Ok(resolved) => resolved.reads.get_bucket_replication().bucket(&connection.settings.bucket),
        Err(error) => return unknown(REPLICATION, error.to_string()),
    };
    match request.send().await {
        Ok(reply) => {
            let rules = reply.replication_configuration().map(|configuration| configuration.rules()).unwrap_or_default();
            if !rules.iter().any(|rule| *rule.status() == ReplicationRuleStatus::Enabled) {
                return good(REPLICATION, "is off");
            }
            warning(
                REPLICATION,
                "is on: objects arrive at the copy in any order, so a head there may name data that is not there yet; never write to the \
                 copy"
                    .to_owned(),
            )
        }
        Err(error) if error.code() == Some("ReplicationConfigurationNotFoundError") => good(REPLICATION, "is off"),
        Err(error) => untold(REPLICATION, &error),
    }
}

fn untold<E>(subject: &'static str, error: &SdkError<E, HttpResponse>) -> Finding
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    unknown(subject, Failure::new(error, 1).into_detail())
}

fn good(subject: &'static str, message: &str) -> Finding {
    Finding { subject: subject.to_owned(), severity: Severity::Good, message: message.to_owned() }
}

fn warning(subject: &'static str, message: String) -> Finding {
    Finding { subject: subject.to_owned(), severity: Severity::Warning, message }
}

fn unknown(subject: &'static str, cause: String) -> Finding {
    Finding { subject: subject.to_owned(), severity: Severity::Unknown, message: format!("could not tell: {cause}") }
}

#[cfg(test)]
mod tests {
    use aws_sdk_s3::types::{LifecycleExpiration, LifecycleRuleFilter, Tag, Transition};

    use super::*;

    #[test]
    fn only_rules_that_take_a_catalogs_objects_away_harm_it() {
        let rule =
            |prefix: &str, status| LifecycleRule::builder().status(status).filter(LifecycleRuleFilter::builder().prefix(prefix).build());
        let days = LifecycleExpiration::builder().days(30).build();
        let expiring = |prefix, status| rule(prefix, status).expiration(days.clone()).build().unwrap();
        for (prefix, harmful) in [("", true), ("la", true), ("lake/", true), ("lake/data/", true), ("lake2/", false), ("other/", false)] {
            assert_eq!(harms(&expiring(prefix, ExpirationStatus::Enabled), "lake"), harmful, "{prefix}");
            assert!(harms(&expiring(prefix, ExpirationStatus::Enabled), ""), "{prefix}");
            assert!(!harms(&expiring(prefix, ExpirationStatus::Disabled), "lake"), "{prefix}");
        }
        for (class, harmful) in [(TransitionStorageClass::Glacier, true), (TransitionStorageClass::StandardIa, false)] {
            let moving = Transition::builder().days(1).storage_class(class).build();
            assert_eq!(harms(&rule("lake/", ExpirationStatus::Enabled).transitions(moving).build().unwrap(), "lake"), harmful);
        }
        assert!(!harms(&rule("lake/", ExpirationStatus::Enabled).build().unwrap(), "lake"));
        let tag = LifecycleRuleFilter::builder().tag(Tag::builder().key("a").value("b").build().unwrap()).build();
        let tagged = LifecycleRule::builder().status(ExpirationStatus::Enabled).filter(tag).expiration(days.clone()).build().unwrap();
        assert!(!harms(&tagged, "lake"));
    }
}
