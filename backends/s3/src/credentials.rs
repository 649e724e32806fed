//! One credential chain for the SDK and for object_store, asked as rarely as its answers allow.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use headwater_core::ids::{Environment, SystemEnvironment};
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use tokio::sync::Mutex;

use crate::failure::chain;

/// Credentials are replaced when they have less time left than this, so that none expires on its way.
const MARGIN: Duration = Duration::from_secs(60);

/// A provider that keeps what another one gave until shortly before it expires. Callers at once wait for one refresh.
#[derive(Clone)]
pub(crate) struct CachedCredentials {
    chain: SharedCredentialsProvider,
    environment: Arc<dyn Environment>,
    held: Arc<Mutex<Option<Credentials>>>,
}

impl CachedCredentials {
    pub(crate) fn new(chain: SharedCredentialsProvider) -> Self {
        Self::over(chain, Arc::new(SystemEnvironment))
    }

    fn over(chain: SharedCredentialsProvider, environment: Arc<dyn Environment>) -> Self {
        Self { chain, environment, held: Arc::default() }
    }

    async fn current(&self) -> Result<Credentials, CredentialsError> {
        let mut held = self.held.lock().await;
        if let Some(credentials) = held.as_ref().filter(|credentials| self.remain(credentials, MARGIN)) {
            return Ok(credentials.clone());
        }
        match self.chain.provide_credentials().await {
            Ok(fresh) => Ok(held.insert(fresh).clone()),
            // A passing failure of the source need not stop work that the old ones still allow.
            Err(error) => match held.as_ref().filter(|credentials| self.remain(credentials, Duration::ZERO)) {
                Some(credentials) => {
                    tracing::warn!(cause = chain(&error), "the credentials could not be renewed; the old ones are used until they expire");
                    Ok(credentials.clone())
                }
                None => Err(error),
            },
        }
    }

    fn remain(&self, credentials: &Credentials, margin: Duration) -> bool {
        let Some(expiry) = credentials.expiry() else { return true };
        let expiry = expiry.duration_since(UNIX_EPOCH).unwrap_or_default();
        Duration::from_millis(self.environment.now_ms()) + margin < expiry
    }
}

impl fmt::Debug for CachedCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedCredentials").finish_non_exhaustive()
    }
}

impl ProvideCredentials for CachedCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.current())
    }
}

#[async_trait]
impl CredentialProvider for CachedCredentials {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let credentials = self
            .current()
            .await
            .map_err(|error| object_store::Error::Unauthenticated { path: "credentials".to_owned(), source: chain(&error).into() })?;
        Ok(Arc::new(AwsCredential {
            key_id: credentials.access_key_id().to_owned(),
            secret_key: credentials.secret_access_key().to_owned(),
            token: credentials.session_token().map(ToOwned::to_owned),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Gives credentials that live for ten minutes, and counts; fails from the third time on.
    #[derive(Debug)]
    struct Source(Arc<Clock>, AtomicU64);

    #[derive(Debug, Default)]
    struct Clock(AtomicU64);

    impl Environment for Clock {
        fn now_ms(&self) -> u64 {
            self.0.load(Ordering::SeqCst)
        }

        fn random(&self) -> u128 {
            0
        }
    }

    impl ProvideCredentials for Source {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            let nth = self.1.fetch_add(1, Ordering::SeqCst) + 1;
            let expiry = UNIX_EPOCH + Duration::from_millis(self.0.now_ms()) + Duration::from_secs(600);
            future::ProvideCredentials::ready(if nth < 3 {
                Ok(Credentials::new(format!("key{nth}"), "hunter2", None, Some(expiry), "test"))
            } else {
                Err(CredentialsError::provider_error("no more"))
            })
        }
    }

    #[tokio::test]
    async fn credentials_are_kept_renewed_and_used_to_the_end() {
        let clock = Arc::new(Clock::default());
        let source = SharedCredentialsProvider::new(Source(clock.clone(), AtomicU64::new(0)));
        let cached = CachedCredentials::over(source, clock.clone());
        let key = async || cached.get_credential().await.map(|credential| credential.key_id.clone());
        let at = |seconds: u64| clock.0.store(seconds * 1000, Ordering::SeqCst);
        assert_eq!(key().await.unwrap(), "key1");
        at(500);
        assert_eq!(key().await.unwrap(), "key1");
        at(545);
        assert_eq!(key().await.unwrap(), "key2");
        // The source fails from here on, and these have 55 seconds left.
        at(545 + 545);
        assert_eq!(key().await.unwrap(), "key2");
        assert_eq!(cached.provide_credentials().await.unwrap().access_key_id(), "key2");
        at(545 + 601);
        assert!(matches!(key().await.unwrap_err(), object_store::Error::Unauthenticated { .. }));
        assert!(!format!("{cached:?}").contains("hunter2"));
    }
}
