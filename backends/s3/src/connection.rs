//! What settings resolve to, at the first request and once: clients, endpoint, credentials.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::region::ProfileFileRegionProvider;
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::endpoint::{DefaultResolver, Params, ResolveEndpoint};
use aws_sdk_s3::config::{IdentityCache, Region, RequestChecksumCalculation, ResponseChecksumValidation};
use aws_types::SdkConfig;
use aws_types::service_config::ServiceConfigKey;
use headwater_core::{Error, ErrorKind, Result};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use tokio::sync::OnceCell;
use url::Url;

use crate::credentials::CachedCredentials;
use crate::failure::chain;
use crate::http::{CONNECT, Http, STALL, for_credentials};
use crate::layout::Layout;
use crate::settings::{self, Settings};

/// How long one attempt of a control request may take. A write that takes longer has an unknown outcome.
const ATTEMPT: Duration = Duration::from_secs(30);
/// How long a control read may take with all its attempts.
const OPERATION: Duration = Duration::from_secs(90);
/// The region of the signature where a server of one's own has none.
const ANY_REGION: &str = "us-east-1";

/// Settings, and what they resolve to once something is asked for.
pub(crate) struct Connection {
    pub(crate) settings: Settings,
    pub(crate) layout: Layout,
    resolved: OnceCell<Resolved>,
}

/// Everything a request needs.
pub(crate) struct Resolved {
    /// For requests that may be repeated: the SDK's retries are on.
    pub(crate) reads: Client,
    /// For conditional writes: one attempt, because a second would hide what became of the first.
    pub(crate) writes: Client,
    /// The data store, from the prefix on.
    pub(crate) objects: Arc<PrefixStore<AmazonS3>>,
    /// The bucket's URL.
    pub(crate) bucket: Url,
    pub(crate) http: Http,
}

impl Connection {
    pub(crate) fn new(settings: Settings) -> Result<Self> {
        let settings = settings.or_environment(|name| std::env::var(name).ok())?;
        Ok(Self { layout: Layout::new(&settings.prefix), settings, resolved: OnceCell::new() })
    }

    /// Resolves at the first call; a failure is not kept.
    pub(crate) async fn resolved(&self) -> Result<&Resolved> {
        self.resolved.get_or_try_init(|| resolve(&self.settings)).await
    }

    /// The host requests go to, as far as it is known.
    pub(crate) fn host(&self) -> Option<&str> {
        let resolved = self.resolved.get().map(|resolved| &resolved.bucket);
        resolved.or(self.settings.endpoint.as_ref()).and_then(Url::host_str)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("settings", &self.settings)
            .field("bucket", &self.resolved.get().map(|resolved| resolved.bucket.as_str()))
            .finish()
    }
}

async fn resolve(settings: &Settings) -> Result<Resolved> {
    let sdk = load(settings).await;
    let endpoint = match &settings.endpoint {
        Some(endpoint) => Some(endpoint.clone()),
        None => profile_endpoint(settings, &sdk)?,
    };
    let region = match (sdk.region(), &endpoint) {
        (Some(region), _) => region.clone(),
        (None, Some(_)) => Region::from_static(ANY_REGION),
        (None, None) => return Err(Error::invalid("the bucket's region is not known; set AWS_REGION or the URL option region")),
    };
    let path_style = settings.path_style.unwrap_or_else(|| endpoint.as_ref().is_some_and(|endpoint| !is_aws(endpoint)));
    let bucket = bucket_url(settings, &sdk, endpoint.as_ref(), &region, path_style).await?;
    settings.check_transport(&bucket)?;

    let tls = bucket.scheme() == "https";
    let observer = settings.observer.clone();
    let http = tokio::task::spawn_blocking(move || Http::new(tls, observer)).await;
    let http = http.map_err(|source| Error::new(ErrorKind::Unavailable, "the runtime shut down before the request").because(source))??;
    let chain = sdk.credentials_provider().ok_or_else(|| Error::invalid("no source of S3 credentials is set"))?;
    let credentials = CachedCredentials::new(chain);

    let mut config = aws_sdk_s3::config::Builder::from(&sdk)
        .http_client(http.for_sdk())
        .region(region.clone())
        .force_path_style(path_style)
        .credentials_provider(credentials.clone())
        // `CachedCredentials` is the cache.
        .identity_cache(IdentityCache::no_cache())
        // Stores that are not AWS's refuse trailing checksums or ignore them; a control object carries its own digest.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        .stalled_stream_protection(StalledStreamProtectionConfig::enabled().grace_period(STALL).build())
        .timeout_config(limits());
    config.set_endpoint_url(endpoint.map(Url::into));
    let writes = Client::from_conf(config.clone().retry_config(RetryConfig::disabled()).build());
    let reads = Client::from_conf(config.build());

    let objects = AmazonS3Builder::new()
        .with_http_connector(http.clone())
        .with_bucket_name(&settings.bucket)
        .with_region(region.to_string())
        // The bucket is part of this URL already, in its host or its path: what the SDK resolved holds for both.
        .with_endpoint(bucket.as_str().trim_end_matches('/'))
        .with_virtual_hosted_style_request(true)
        .with_credentials(Arc::new(credentials))
        // Google's S3 interface has no bulk deletion.
        .with_disable_bulk_delete(bucket.host_str().is_some_and(|host| host.ends_with("storage.googleapis.com")))
        .build()?;
    let prefix = Path::parse(&settings.prefix).map_err(|source| Error::invalid("the prefix is no path of objects").because(source))?;
    Ok(Resolved { reads, writes, objects: Arc::new(PrefixStore::new(objects, prefix)), bucket, http })
}

async fn load(settings: &Settings) -> SdkConfig {
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12()).http_client(for_credentials());
    let mut profile_region = ProfileFileRegionProvider::builder();
    if let Some(profile) = &settings.profile {
        loader = loader.profile_name(profile);
        profile_region = profile_region.profile_name(profile);
    }
    loader = match (&settings.region, &settings.endpoint) {
        (Some(region), _) => loader.region(Region::new(region.clone())),
        // A server of one's own needs no region, so no instance is asked for one.
        (None, Some(_)) => loader.region(RegionProviderChain::first_try(profile_region.build()).or_else(Region::from_static(ANY_REGION))),
        (None, None) => loader,
    };
    if let Some(credentials) = &settings.credentials {
        loader = loader.credentials_provider(credentials.clone());
    }
    loader.load().await
}

/// The endpoint that the profile names, for S3 or for everything.
fn profile_endpoint(settings: &Settings, sdk: &SdkConfig) -> Result<Option<Url>> {
    if !settings.configured_endpoints {
        return Ok(None);
    }
    let key = ServiceConfigKey::builder().service_id("S3").env("AWS_ENDPOINT_URL").profile("endpoint_url").build();
    let special = key.ok().and_then(|key| sdk.service_config()?.load_config(key));
    let text = special.or_else(|| sdk.endpoint_url().map(ToOwned::to_owned));
    text.map(|text| settings::endpoint("the profile's endpoint_url", &text)).transpose()
}

async fn bucket_url(settings: &Settings, sdk: &SdkConfig, endpoint: Option<&Url>, region: &Region, path_style: bool) -> Result<Url> {
    let invalid = |detail: String| Error::invalid("these settings name no S3 endpoint; check region, endpoint and bucket").because(detail);
    let params = Params::builder()
        .bucket(&settings.bucket)
        .region(region.to_string())
        .set_endpoint(endpoint.map(|endpoint| endpoint.as_str().to_owned()))
        .force_path_style(path_style)
        .use_fips(sdk.use_fips().unwrap_or_default())
        .use_dual_stack(sdk.use_dual_stack().unwrap_or_default())
        .build()
        .map_err(|error| invalid(chain(&error)))?;
    let resolved = DefaultResolver::new().resolve_endpoint(&params).await.map_err(|error| invalid(error.to_string()))?;
    Url::parse(resolved.url()).map_err(|error| invalid(error.to_string()))
}

fn limits() -> TimeoutConfig {
    TimeoutConfig::builder().connect_timeout(CONNECT).operation_attempt_timeout(ATTEMPT).operation_timeout(OPERATION).build()
}

fn is_aws(endpoint: &Url) -> bool {
    endpoint.host_str().is_some_and(|host| host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn"))
}
