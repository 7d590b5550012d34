"""Signs and verifies a model with model-signing, the reference implementation.

reference.py keys FOLDER
reference.py sign PLACE SIGNATURE KEY (files|shards) (sha256|blake2|blake3)
reference.py certify PLACE SIGNATURES FOLDER
reference.py verify PLACE SIGNATURE PUBLIC_KEY
"""

import datetime
import json
import pathlib
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from model_signing import hashing, signing, verifying

CURVES = {"p256": ec.SECP256R1(), "p384": ec.SECP384R1(), "p521": ec.SECP521R1()}
CODE_SIGNING = x509.ExtendedKeyUsageOID.CODE_SIGNING
P256, P384, P521 = (lambda curve=curve: ec.generate_private_key(curve) for curve in CURVES.values())
RSA, SHORT_RSA = (lambda bits=bits: rsa.generate_private_key(65537, bits) for bits in [2048, 1024])
PEM = serialization.Encoding.PEM
FORMATS = {"p384": serialization.PrivateFormat.TraditionalOpenSSL}


def keys(folder):
    """Writes a pair of keys for each curve."""
    folder = pathlib.Path(folder)
    for name, curve in CURVES.items():
        write_key(folder, name, ec.generate_private_key(curve))
    write_key(folder, "other", P256())


def write_key(folder, name, key):
    form = FORMATS.get(name, serialization.PrivateFormat.PKCS8)
    (folder / f"{name}.key").write_bytes(key.private_bytes(PEM, form, serialization.NoEncryption()))
    public = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pem").write_bytes(public)


class Authority:
    """A key and its certificate, which may issue others."""

    def __init__(self, name, issuer=None, key=P256, hash=hashes.SHA256(), padding=None, **content):
        """`hash` and `padding` are those with which it is signed."""
        self.key = key()
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        issuer_key, issuer_name = (issuer.key, issuer.certificate.subject) if issuer else (self.key, subject)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer_name)
        builder = builder.public_key(self.key.public_key()).serial_number(x509.random_serial_number())
        builder = extended(builder, **content)
        is_ed25519 = isinstance(issuer_key, ed25519.Ed25519PrivateKey)
        self.certificate = builder.sign(issuer_key, None if is_ed25519 else hash, rsa_padding=padding)

    def write(self, folder, name):
        private = self.key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        (folder / f"{name}.key").write_bytes(private)
        (folder / f"{name}.crt").write_bytes(self.certificate.public_bytes(PEM))


USAGES = [
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
]


def extended(builder, is_ca=True, usage="", path_length=None, purpose=None, year=2025, days=3650):
    start = datetime.datetime(year, 1, 1)
    builder = builder.not_valid_before(start).not_valid_after(start + datetime.timedelta(days=days))
    builder = builder.add_extension(x509.BasicConstraints(ca=is_ca, path_length=path_length), critical=True)
    usage = usage or ("key_cert_sign" if is_ca else "digital_signature")
    builder = builder.add_extension(x509.KeyUsage(**{name: name == usage for name in USAGES}), critical=True)
    return builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False) if purpose else builder


def signer(issuer, **content):
    # The certificate has expired; the model was signed before.
    return Authority("signer", issuer, is_ca=False, days=30, **content)


def chains():
    """The chains by name: the root, the certificate of the signer, and the others that the signature contains."""
    root = Authority("root")
    middle, no_ca = Authority("middle", root), Authority("middle", root, is_ca=False)
    lower = Authority("lower", middle)
    short = Authority("middle", root, path_length=0)
    too_low = Authority("lower", short)
    forger = Authority("middle", Authority("root"))
    no_sign = Authority("middle", root, usage="crl_sign")
    expired = Authority("middle", root, year=2024, days=100)
    end_entity = signer(root)
    itself = Authority("signer", is_ca=False, days=30)
    roots = {
        "root-expired": {"year": 2015, "days": 1000},
        "root-expired-just-then": {"year": 2024, "days": 366},
        "root-later": {"year": 2026},
        "root-no-ca": {"is_ca": False},
        "root-no-ca-but-sign": {"is_ca": False, "usage": "key_cert_sign"},
        "root-no-sign": {"usage": "crl_sign"},
        "root-too-short": {"path_length": 0},
        "root-long-enough": {"path_length": 1},
    }
    roots = {name: Authority("root", **content) for name, content in roots.items()}
    chains = {
        "certified": (root, signer(middle), [middle]),
        "direct": (root, signer(root), [root]),
        "two": (root, signer(lower), [lower, middle]),
        "reversed": (root, signer(lower), [middle, lower]),
        "with-root": (root, signer(middle), [middle, root]),
        "forged-too": (root, signer(middle), [forger, middle]),
        "code-signing": (root, signer(middle, usage="content_commitment", purpose=CODE_SIGNING), [middle]),
        "p384-signer": (root, signer(middle, key=P384), [middle]),
        "p521-signer": (root, signer(middle, key=P521), [middle]),
        "other-usage": (root, signer(middle, usage="key_encipherment"), [middle]),
        "other-purpose": (root, signer(middle, purpose=x509.ExtendedKeyUsageOID.SERVER_AUTH), [middle]),
        "no-ca": (root, signer(no_ca), [no_ca]),
        "incomplete": (root, signer(middle), [root]),
        "too-long": (root, signer(too_low), [too_low, short]),
        "forger": (root, signer(forger), [forger]),
        "forged-beside": (root, signer(forger), [forger, middle]),
        "no-sign": (root, signer(no_sign), [no_sign]),
        "expired": (root, signer(expired), [expired]),
        "end-entity": (root, signer(end_entity), [end_entity]),
        "no-root": (middle, signer(middle), [middle]),
        "itself": (itself, itself, [itself]),
    }
    for name, own_root in roots.items():
        own_middle = Authority("middle", own_root)
        chains[name] = (own_root, signer(own_middle), [own_middle])
    chains["root-direct"] = (roots["root-too-short"], signer(roots["root-too-short"]), [roots["root-too-short"]])
    for name, key, how in [
        ("p384-chain", P384, {"hash": hashes.SHA384()}),
        ("p521-chain", P521, {"hash": hashes.SHA512()}),
        ("rsa", RSA, {}),
        ("rsa-sha512", RSA, {"hash": hashes.SHA512()}),
        ("rsa-pss", RSA, {"hash": hashes.SHA384(), "padding": pss(hashes.SHA384(), 48)}),
        ("rsa-pss-salt", RSA, {"hash": hashes.SHA256(), "padding": pss(hashes.SHA256(), 20)}),
        ("rsa-1024", SHORT_RSA, {}),
        ("ed25519", ed25519.Ed25519PrivateKey.generate, {}),
    ]:
        own_root = Authority("root", key=key, **how)
        own_middle = Authority("middle", own_root, key=key, **how)
        chains[name] = (own_root, signer(own_middle, **how), [own_middle])
    return chains


def pss(hash, salt):
    return padding.PSS(padding.MGF1(hash), salt)


def hashing_of(signature, method="files", algorithm="sha256"):
    config = hashing.Config()
    if method == "shards":
        config.use_shard_serialization(hashing_algorithm=algorithm, shard_size=100_000)
    else:
        config.use_file_serialization(hashing_algorithm=algorithm)
    return config.set_ignored_paths(paths=[pathlib.Path(signature).name])


def sign(place, signature, key, method, algorithm):
    config = signing.Config().use_elliptic_key_signer(private_key=key)
    config.set_hashing_config(hashing_of(signature, method, algorithm)).sign(place, signature)


def certify(place, signatures, folder):
    """Signs a model with each chain. Writes the roots, one that has issued nothing, and verdicts to a folder."""
    folder, signatures = pathlib.Path(folder), pathlib.Path(signatures)
    verdicts = {}
    Authority("root").write(folder, "stranger")
    for name, (root, signer, others) in chains().items():
        root.write(folder, f"{name}-root")
        signer.write(folder, "signer")
        for number, other in enumerate(others):
            other.write(folder, f"other{number}")
        signature = signatures / f"{name}.sig"
        config = signing.Config().use_certificate_signer(
            private_key=folder / "signer.key",
            signing_certificate=folder / "signer.crt",
            certificate_chain=[folder / f"other{number}.crt" for number in range(len(others))],
        )
        config.set_hashing_config(hashing_of(signature)).sign(place, signature)
        verdicts[name] = is_accepted(place, signature, folder / f"{name}-root.crt")
    (folder / "verdicts.json").write_text(json.dumps(verdicts))


def is_accepted(place, signature, root):
    """Whether the reference accepts a chain."""
    verifier = verifying.Config().use_certificate_verifier(certificate_chain=[root])
    try:
        verifier.verify(place, signature)
    except Exception:
        return False
    return True


def verify(place, signature, public_key):
    verifying.Config().use_elliptic_key_verifier(public_key=public_key).verify(place, signature)


{"keys": keys, "sign": sign, "certify": certify, "verify": verify}[sys.argv[1]](*sys.argv[2:])
