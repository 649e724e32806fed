//! Where a catalog lies and how to reach it. Read in one place, once.

use std::fmt;
use std::sync::Arc;

use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use headwater_core::registry::Location;
use headwater_core::{Error, ErrorKind, Result};
use percent_encoding::percent_decode_str;
use url::{Host, Url};

use crate::observer::Observer;

/// Room for the longest head or record key below the prefix in the 1,024 bytes of an S3 key.
const MAX_PREFIX_BYTES: usize = 512;

/// A bucket, a prefix, and how to reach them.
///
/// | what | URL option | environment | profile | else |
/// |---|---|---|---|---|
/// | region | `region` | `AWS_REGION`, `AWS_DEFAULT_REGION` | `region` | `us-east-1` with an endpoint of one's own; the instance's |
/// | endpoint | `endpoint` | `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL` | `endpoint_url`, also below `services` | AWS's of the region |
/// | path style | `path_style` | `AWS_VIRTUAL_HOSTED_STYLE_REQUEST` | | with an endpoint that is not AWS's |
/// | plain HTTP | `allow_http` | `AWS_ALLOW_HTTP` | | to this host only |
/// | profile | `profile` | `AWS_PROFILE` | | `default` |
/// | credentials | | the SDK's chain: environment, profile files, web identity, container, instance | | |
///
/// The leftmost wins; what is set by hand counts like a URL option. `AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true` leaves the endpoints of
/// environment and profile out. Certificates are the system's; `SSL_CERT_FILE` names others. `HTTPS_PROXY` and
/// `NO_PROXY` count for an endpoint with TLS.
///
/// Secrets are never shown, and never part of a URL.
#[derive(Clone)]
pub struct Settings {
    pub(crate) bucket: String,
    /// No slash at either end.
    pub(crate) prefix: String,
    pub(crate) region: Option<String>,
    pub(crate) endpoint: Option<Url>,
    pub(crate) path_style: Option<bool>,
    pub(crate) allow_http: Option<bool>,
    pub(crate) profile: Option<String>,
    pub(crate) credentials: Option<SharedCredentialsProvider>,
    /// Whether the endpoints of a profile count.
    pub(crate) configured_endpoints: bool,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

impl Settings {
    /// A bucket and a prefix in it (empty for all of it), and nothing else set.
    ///
    /// Errors with `InvalidInput` for names S3 cannot have, and with `Unsupported` for a directory bucket.
    pub fn new(bucket: &str, prefix: &str) -> Result<Self> {
        check_bucket(bucket)?;
        let prefix = prefix.trim_matches('/');
        check_prefix(prefix)?;
        Ok(Self {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            region: None,
            endpoint: None,
            path_style: None,
            allow_http: None,
            profile: None,
            credentials: None,
            configured_endpoints: true,
            observer: None,
        })
    }

    /// Reads `s3://bucket/prefix?options`. An unknown option is an error.
    pub fn from_location(location: &Location) -> Result<Self> {
        let url = &location.url;
        let shape = || Error::invalid("the URL does not name a bucket; write s3://bucket/prefix");
        if url.scheme() != "s3" || url.port().is_some() || !url.username().is_empty() || url.password().is_some() {
            return Err(shape());
        }
        let prefix = percent_decode_str(url.path()).decode_utf8().map_err(|source| shape().because(source))?;
        let mut settings = Self::new(url.host_str().ok_or_else(shape)?, &prefix)?;
        let mut options = location.options.clone();
        settings.region = options.take("region");
        settings.profile = options.take("profile");
        settings.path_style = options.take("path_style").map(|text| flag("the URL option path_style", &text)).transpose()?;
        settings.allow_http = options.take("allow_http").map(|text| flag("the URL option allow_http", &text)).transpose()?;
        settings.endpoint = options.take("endpoint").map(|text| endpoint("the URL option endpoint", &text)).transpose()?;
        options.finish()?;
        Ok(settings)
    }

    /// Sets the region.
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.region = Some(region.into());
        self
    }

    /// Sets the endpoint: `http://` or `https://`, host and port. Errors with `InvalidInput` for anything else.
    pub fn endpoint(mut self, url: &str) -> Result<Self> {
        self.endpoint = Some(endpoint("the endpoint", url)?);
        Ok(self)
    }

    /// Sets whether the bucket is the first part of the path, rather than of the host.
    pub fn path_style(mut self, path_style: bool) -> Self {
        self.path_style = Some(path_style);
        self
    }

    /// Sets whether another host may be reached without TLS. Whoever can read that network can read the data.
    pub fn allow_http(mut self, allow_http: bool) -> Self {
        self.allow_http = Some(allow_http);
        self
    }

    /// Sets the profile that settings and credentials come from.
    pub fn profile(mut self, profile: impl Into<String>) -> Self {
        self.profile = Some(profile.into());
        self
    }

    /// Sets where credentials come from, instead of the chain. They are asked for again shortly before they expire.
    pub fn credentials(mut self, provider: impl ProvideCredentials + 'static) -> Self {
        self.credentials = Some(SharedCredentialsProvider::new(provider));
        self
    }

    /// Shows every request to this observer, as it leaves the client: below every retry.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Fills what is not set from the environment.
    pub(crate) fn or_environment(mut self, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let given = |name: &'static str| variable(name).filter(|value| !value.is_empty()).map(|value| (name, value));
        let either = |first, second| given(first).or_else(|| given(second));
        if self.region.is_none() {
            self.region = either("AWS_REGION", "AWS_DEFAULT_REGION").map(|(_, region)| region);
        }
        if let Some((name, value)) = given("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") {
            self.configured_endpoints = !flag(name, &value)?;
        }
        if self.endpoint.is_none() && self.configured_endpoints {
            let set = either("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
            self.endpoint = set.map(|(name, value)| endpoint(name, &value)).transpose()?;
        }
        if self.path_style.is_none() {
            let hosted = given("AWS_VIRTUAL_HOSTED_STYLE_REQUEST").map(|(name, value)| flag(name, &value)).transpose()?;
            self.path_style = hosted.map(|hosted| !hosted);
        }
        if self.allow_http.is_none() {
            self.allow_http = given("AWS_ALLOW_HTTP").map(|(name, value)| flag(name, &value)).transpose()?;
        }
        if let Some(endpoint) = &self.endpoint {
            self.check_transport(endpoint)?;
        }
        Ok(self)
    }

    /// Refuses plain HTTP to another host, unless it was asked for.
    pub(crate) fn check_transport(&self, endpoint: &Url) -> Result<()> {
        let local = match endpoint.host() {
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        if endpoint.scheme() == "https" || local || self.allow_http == Some(true) {
            return Ok(());
        }
        let remedy = "use https://, or set allow_http=true if its network may be trusted";
        Err(Error::invalid(format!("the endpoint {endpoint} is reached without TLS; {remedy}")))
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .field("region", &self.region)
            .field("endpoint", &self.endpoint.as_ref().map(Url::as_str))
            .field("path_style", &self.path_style)
            .field("allow_http", &self.allow_http)
            .field("profile", &self.profile)
            .field("credentials", &if self.credentials.is_some() { "given" } else { "chain" })
            .finish()
    }
}

fn flag(name: &str, text: &str) -> Result<bool> {
    match text {
        "true" | "TRUE" | "True" => Ok(true),
        "false" | "FALSE" | "False" => Ok(false),
        _ => Err(Error::invalid(format!("{name} is {text:?}; write true or false"))),
    }
}

/// Parses an endpoint. `name` says where it was set; the text itself is not repeated, because it may hold a password.
pub(crate) fn endpoint(name: &str, text: &str) -> Result<Url> {
    let shape = || Error::invalid(format!("{name} is no endpoint; write http:// or https://, a host, and a port where it needs one"));
    let url = Url::parse(text).map_err(|source| shape().because(source))?;
    let plain = url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
    let http = matches!(url.scheme(), "http" | "https") && url.has_host();
    if plain && http { Ok(url) } else { Err(shape()) }
}

fn check_bucket(bucket: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let edges = bucket.starts_with(plain) && bucket.ends_with(plain) && !bucket.contains("..");
    if !(3..=63).contains(&bucket.len()) || !edges || !bucket.chars().all(|c| plain(c) || c == '-' || c == '.') {
        return Err(Error::invalid(format!("{bucket:?} is no bucket name; it has 3 to 63 lower-case letters, digits, '-' and '.'")));
    }
    if bucket.ends_with("--x-s3") {
        let remedy = "use a general purpose one";
        return Err(Error::new(ErrorKind::Unsupported, format!("{bucket:?} is a directory bucket; {remedy}")));
    }
    Ok(())
}

fn check_prefix(prefix: &str) -> Result<()> {
    let problem = if prefix.len() > MAX_PREFIX_BYTES {
        "is longer than 512 bytes"
    } else if prefix.chars().any(char::is_control) {
        "contains a control character"
    } else if !prefix.is_empty() && prefix.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        "has an empty part, '.' or '..'"
    } else if prefix.split('/').any(|segment| segment == "_headwater") {
        "is a catalog's own folder"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("the prefix {prefix:?} {problem}; choose another one")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_credential_types::Credentials;

    fn parsed(url: &str) -> Result<Settings> {
        Settings::from_location(&Location::parse(url)?)
    }

    fn over(settings: Settings, variables: &[(&str, &str)]) -> Result<Settings> {
        settings.or_environment(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn a_url_names_bucket_and_prefix() {
        for (url, bucket, prefix) in [
            ("s3://lake", "lake", ""),
            ("s3://lake/", "lake", ""),
            ("s3://my.lake-1/a/b/", "my.lake-1", "a/b"),
            ("s3://lake/a%20b/%C3%BC/100%25", "lake", "a b/ü/100%"),
        ] {
            let settings = parsed(url).unwrap();
            assert_eq!((settings.bucket.as_str(), settings.prefix.as_str()), (bucket, prefix), "{url}");
        }
    }

    #[test]
    fn what_is_no_place_in_s3_is_refused() {
        let long = format!("s3://lake/{}", "x".repeat(513));
        for url in [
            "s3:///x",
            "s3://ab",
            "s3://Lake/x",
            "s3://la_ke",
            "s3://-lake",
            "s3://la..ke",
            "s3://lake:80/x",
            "s3://user:hunter2@lake/x",
            "s3://lake/a//b",
            "s3://lake/a%00b",
            "s3://lake/%FF",
            "s3://lake/_headwater",
            "s3://lake?region=eu-west-1&colour=red",
            "s3://lake?path_style=maybe",
            "s3://lake?endpoint=ftp://host",
            "s3://lake?endpoint=host:9000",
            "s3://lake?endpoint=https://user:hunter2@host",
            "s3://lake?secret_access_key=hunter2",
            "s3://lake#x",
            &long,
        ] {
            let error = parsed(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        assert_eq!(parsed("s3://lake--use1-az4--x-s3/x").unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(parsed("s3://lake?colour=red").unwrap_err().to_string().contains("\"colour\""));
    }

    #[test]
    fn the_url_wins_over_the_environment_and_the_special_variable_over_the_general() {
        let environment = [
            ("AWS_REGION", "eu-west-1"),
            ("AWS_DEFAULT_REGION", "eu-west-2"),
            ("AWS_ENDPOINT_URL_S3", "https://special"),
            ("AWS_ENDPOINT_URL", "https://general"),
            ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true"),
            ("AWS_ALLOW_HTTP", "false"),
        ];
        let url = "s3://lake?region=us-west-2&endpoint=http://given:9000&path_style=true&allow_http=true&profile=work";
        let settings = over(parsed(url).unwrap(), &environment).unwrap();
        assert_eq!(settings.region.as_deref(), Some("us-west-2"));
        assert_eq!(settings.endpoint.as_ref().map(Url::as_str), Some("http://given:9000/"));
        assert_eq!((settings.path_style, settings.allow_http), (Some(true), Some(true)));
        assert_eq!(settings.profile.as_deref(), Some("work"));

        let settings = over(parsed("s3://lake").unwrap(), &environment).unwrap();
        assert_eq!(settings.region.as_deref(), Some("eu-west-1"));
        assert_eq!(settings.endpoint.as_ref().map(Url::as_str), Some("https://special/"));
        assert_eq!((settings.path_style, settings.allow_http), (Some(false), Some(false)));

        let settings = over(parsed("s3://lake").unwrap(), &[environment[1], environment[3], ("AWS_REGION", "")]).unwrap();
        assert_eq!(settings.region.as_deref(), Some("eu-west-2"));
        assert_eq!(settings.endpoint.as_ref().map(Url::as_str), Some("https://general/"));

        let ignored = [environment[3], ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")];
        let settings = over(parsed("s3://lake").unwrap(), &ignored).unwrap();
        assert_eq!((settings.endpoint, settings.configured_endpoints), (None, false));
        assert!(over(parsed("s3://lake").unwrap(), &[("AWS_ALLOW_HTTP", "perhaps")]).is_err());
    }

    #[test]
    fn plain_http_goes_to_this_host_only_unless_asked() {
        for host in ["localhost:9000", "127.0.0.1", "[::1]:9000", "s3.localhost"] {
            over(parsed(&format!("s3://lake?endpoint=http://{host}")).unwrap(), &[]).unwrap();
        }
        let far = "s3://lake?endpoint=http://minio:9000";
        assert_eq!(over(parsed(far).unwrap(), &[]).unwrap_err().kind(), ErrorKind::InvalidInput);
        over(parsed(far).unwrap(), &[("AWS_ALLOW_HTTP", "true")]).unwrap();
        assert!(over(parsed("s3://lake").unwrap(), &[("AWS_ENDPOINT_URL", "http://minio:9000")]).is_err());
    }

    #[test]
    fn secrets_are_not_shown() {
        let credentials = Credentials::new("AKIAEXAMPLE", "hunter2", Some("hunter3".to_owned()), None, "test");
        let shown = format!("{:?}", Settings::new("lake", "x").unwrap().credentials(credentials));
        assert!(!shown.contains("hunter") && shown.contains("given"), "{shown}");
    }
}
