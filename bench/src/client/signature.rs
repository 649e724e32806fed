//! AWS Signature Version 4, header form, for path-style requests with a whole body.

use std::collections::BTreeMap;
use std::fmt::Write;

use hmac::{Hmac, Mac};
use hyper::HeaderMap;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// What S3 leaves as it is in a signed path.
const PATH: &AsciiSet = &QUERY.remove(b'/');
/// What S3 leaves as it is in a signed query.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Who signs, and for which region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signer<'a> {
    pub(super) access_key: &'a str,
    pub(super) secret_key: &'a str,
    pub(super) region: &'a str,
}

/// A request to sign: path and query are not encoded yet, header names are in lower case and include `host`.
pub(super) struct Unsigned<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a [(&'a str, &'a str)],
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: &'a [u8],
    /// As `20130524T000000Z`.
    pub(super) time: &'a str,
}

/// The path and query to send, and all headers with the signature among them.
pub(super) struct Signed {
    pub(super) target: String,
    pub(super) headers: BTreeMap<String, String>,
}

impl Signer<'_> {
    pub(super) fn sign(&self, request: Unsigned<'_>) -> Signed {
        let mut headers = request.headers;
        headers.insert("x-amz-content-sha256".to_owned(), hex(&Sha256::digest(request.body)));
        headers.insert("x-amz-date".to_owned(), request.time.to_owned());
        let path = utf8_percent_encode(request.path, PATH).to_string();
        let encode = |text| utf8_percent_encode(text, QUERY);
        let query: Vec<_> = request.query.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        let target = if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) };
        let credential = format!("{}/{}/{}/s3/aws4_request", self.access_key, request.time.get(..8).unwrap_or_default(), self.region);
        let authorization = authorization(self.secret_key, &credential, request.method, &target, &headers);
        headers.insert("authorization".to_owned(), authorization);
        Signed { target, headers }
    }
}

/// Signs a request whose `headers` are exactly those to be signed. `credential` is access key and scope, as in the header this returns.
fn authorization(secret_key: &str, credential: &str, method: &str, target: &str, headers: &BTreeMap<String, String>) -> String {
    let header = |name| headers.get(name).map_or("", String::as_str);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // A parameter without a value is signed with an empty one.
    let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
    let mut parameters: Vec<_> = parameters.map(|p| if p.contains('=') { p.to_owned() } else { format!("{p}=") }).collect();
    parameters.sort();
    let names = headers.keys().map(String::as_str).collect::<Vec<_>>().join(";");
    let mut canonical = format!("{method}\n{path}\n{}\n", parameters.join("&"));
    for (name, value) in headers {
        let _ = writeln!(canonical, "{name}:{}", value.trim());
    }
    let _ = write!(canonical, "\n{names}\n{}", header("x-amz-content-sha256"));

    let scope = credential.split_once('/').map_or("", |(_, scope)| scope);
    let to_sign = format!("{ALGORITHM}\n{}\n{scope}\n{}", header("x-amz-date"), hex(&Sha256::digest(canonical)));
    let start = format!("AWS4{secret_key}").into_bytes();
    let key = scope.split('/').fold(start, |key, part| keyed(&key, part));
    let signature = hex(&keyed(&key, &to_sign));
    format!("{ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}")
}

/// Signs a request again, as the same client would have without the header `without`. `None` if it carries no signature of this form.
pub(crate) fn sign_without(secret_key: &str, method: &str, target: &str, headers: &HeaderMap, without: &str) -> Option<String> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let fields = text("authorization")?.strip_prefix(ALGORITHM)?;
    let field = |name| fields.split(',').find_map(|field| field.trim().strip_prefix(name));
    let (credential, names) = (field("Credential=")?, field("SignedHeaders=")?);
    let names = names.split(';').filter(|name| *name != without);
    let signed = names.map(|name| Some((name.to_owned(), text(name)?.to_owned()))).collect::<Option<_>>()?;
    Some(authorization(secret_key, credential, method, target, &signed))
}

fn keyed(key: &[u8], message: &str) -> Vec<u8> {
    // HMAC takes a key of any length, so this cannot fail.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(message.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the AWS documentation ("Signature calculations for the authorization header").
    const SIGNER: Signer<'_> =
        Signer { access_key: "AKIAIOSFODNN7EXAMPLE", secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", region: "us-east-1" };

    fn signature(path: &str, query: &[(&str, &str)], header: Option<(&str, &str)>) -> String {
        let mut headers = BTreeMap::from([("host".to_owned(), "examplebucket.s3.amazonaws.com".to_owned())]);
        headers.extend(header.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let request = Unsigned { method: "GET", path, query, headers, body: b"", time: "20130524T000000Z" };
        let signed = SIGNER.sign(request);
        signed.headers["authorization"].rsplit_once("Signature=").expect("a signature").1.to_owned()
    }

    #[test]
    fn signs_as_documented() {
        let object = signature("/test.txt", &[], Some(("range", "bytes=0-9")));
        assert_eq!(object, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
        let list = signature("/", &[("prefix", "J"), ("max-keys", "2")], None);
        assert_eq!(list, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
        let lifecycle = signature("/", &[("lifecycle", "")], None);
        assert_eq!(lifecycle, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    }

    #[test]
    fn signing_again_equals_signing_without_the_header() {
        let sign = |condition: Option<&str>| {
            let mut headers = BTreeMap::from([("host".to_owned(), "localhost:9000".to_owned())]);
            headers.extend(condition.map(|tag| ("if-match".to_owned(), tag.to_owned())));
            SIGNER.sign(Unsigned { method: "PUT", path: "/b/a b", query: &[("x", "")], headers, body: b"body", time: "20130524T000000Z" })
        };
        let with = sign(Some("\"tag\""));
        let headers = with.headers.iter().map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value"))).collect();
        let again = sign_without(SIGNER.secret_key, "PUT", &with.target, &headers, "if-match").expect("signed");
        assert_eq!(again, sign(None).headers["authorization"]);
        assert_ne!(again, with.headers["authorization"]);
    }
}
