"""Signs and verifies a model with model-signing, the reference implementation.

reference.py keys FOLDER
reference.py sign PLACE SIGNATURE KEY (files|shards) (sha256|blake2|blake3)
reference.py certify PLACE SIGNATURE FOLDER
reference.py verify PLACE SIGNATURE PUBLIC_KEY
"""

import datetime
import pathlib
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from model_signing import hashing, signing, verifying

CURVES = {"p256": ec.SECP256R1(), "p384": ec.SECP384R1(), "p521": ec.SECP521R1()}
PEM = serialization.Encoding.PEM
FORMATS = {"p384": serialization.PrivateFormat.TraditionalOpenSSL}


def keys(folder):
    """Writes a pair of keys for each curve, and a chain of certificates: root, intermediate, signer."""
    folder = pathlib.Path(folder)
    for name, curve in CURVES.items():
        write_key(folder, name, ec.generate_private_key(curve))
    root, root_certificate = certificate(folder, "root", None, is_ca=True)
    middle = certificate(folder, "intermediate", (root, root_certificate), is_ca=True)
    certificate(folder, "signer", middle, is_ca=False)
    certificate(folder, "stranger", None, is_ca=True)


def write_key(folder, name, key):
    form = FORMATS.get(name, serialization.PrivateFormat.PKCS8)
    (folder / f"{name}.key").write_bytes(key.private_bytes(PEM, form, serialization.NoEncryption()))
    public = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pem").write_bytes(public)


def certificate(folder, name, issuer, is_ca):
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    issuer_key, issuer_name = (issuer[0], issuer[1].subject) if issuer else (key, subject)
    # The certificate of the signer has expired; the model was signed before.
    start = datetime.datetime(2025, 1, 1)
    end = start + datetime.timedelta(days=3650 if is_ca else 30)
    usage = {"digital_signature": not is_ca, "key_cert_sign": is_ca, "crl_sign": is_ca}
    others = ["content_commitment", "key_encipherment", "data_encipherment", "key_agreement"]
    usage |= dict.fromkeys([*others, "encipher_only", "decipher_only"], False)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
    )
    signed = builder.sign(issuer_key, hashes.SHA256())
    write_key(folder, name, key)
    (folder / f"{name}.crt").write_bytes(signed.public_bytes(PEM))
    return key, signed


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


def certify(place, signature, folder):
    folder = pathlib.Path(folder)
    config = signing.Config().use_certificate_signer(
        private_key=folder / "signer.key",
        signing_certificate=folder / "signer.crt",
        certificate_chain=[folder / "intermediate.crt"],
    )
    config.set_hashing_config(hashing_of(signature)).sign(place, signature)
    verifier = verifying.Config().use_certificate_verifier(certificate_chain=[folder / "root.crt"])
    verifier.verify(place, signature)


def verify(place, signature, public_key):
    verifying.Config().use_elliptic_key_verifier(public_key=public_key).verify(place, signature)


{"keys": keys, "sign": sign, "certify": certify, "verify": verify}[sys.argv[1]](*sys.argv[2:])
