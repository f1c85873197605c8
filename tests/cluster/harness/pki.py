"""Answers for the cluster's certificates and the kubeconfigs made of them.

It must not decide who may do what: a name and its groups are all that a certificate says.
"""

from dataclasses import dataclass
from pathlib import Path

import yaml

from harness import commands

# Without a configuration of our own, openssl's default one makes every certificate an authority.
OPENSSL_CONFIGURATION = "[req]\ndistinguished_name = name\n[name]\n"
EC_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30")


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, as PEM files."""

    crt: Path
    key: Path


class Authority:
    """The certificate authority that the whole cluster trusts."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self._configuration = folder / "openssl.cnf"
        self._configuration.write_text(OPENSSL_CONFIGURATION)
        self.own = self._certificate("ca", "/CN=cluster-ca", "basicConstraints=critical,CA:TRUE")

    def issue(self, file_name: str, user: str, *, groups: tuple[str, ...] = (), hosts: str = "") -> Certificate:
        """A certificate for ``user``; ``hosts`` are openssl's alternative names (``IP:10.0.0.1,DNS:x``)."""
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={user}"
        extensions = ["basicConstraints=critical,CA:FALSE", "extendedKeyUsage=clientAuth,serverAuth"]
        extensions += [f"subjectAltName={hosts}"] if hosts else []
        signer = ("-CA", str(self.own.crt), "-CAkey", str(self.own.key))
        return self._certificate(file_name, subject, *extensions, signer=signer)

    def _certificate(
        self, file_name: str, subject: str, *extensions: str, signer: tuple[str, ...] = ()
    ) -> Certificate:
        made = Certificate(self.folder / f"{file_name}.crt", self.folder / f"{file_name}.key")
        added = [word for extension in extensions for word in ("-addext", extension)]
        files = ("-keyout", made.key, "-out", made.crt)
        request = ("openssl", "req", "-x509", "-config", self._configuration, "-subj", subject)
        commands.run(*request, *EC_KEY, *added, *signer, *files)
        return made

    def signing_key(self, file_name: str) -> Path:
        """A private key that signs service account tokens."""
        target = self.folder / f"{file_name}.key"
        commands.run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", target)
        return target

    def kubeconfig(self, server: str, identity: Certificate) -> Path:
        """The file with which ``identity`` speaks to the API server."""
        target = identity.crt.with_suffix(".kubeconfig")
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "cluster",
            "clusters": [
                {"name": "cluster", "cluster": {"server": server, "certificate-authority": str(self.own.crt)}}
            ],
            "users": [
                {
                    "name": "user",
                    "user": {"client-certificate": str(identity.crt), "client-key": str(identity.key)},
                }
            ],
            "contexts": [{"name": "cluster", "context": {"cluster": "cluster", "user": "user"}}],
        }
        target.write_text(yaml.safe_dump(content))
        return target
