"""Build the nodes: `python tests/servers/java_nodes [opensearch|elasticsearch]`, with Maven and a JDK of 21 or newer (JAVA_HOME).

Programs: .clients/opensearch/bin/opensearch and .clients/elasticsearch/bin/elasticsearch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLIENTS = HERE.parents[2] / ".clients"
OPENSEARCH, ELASTICSEARCH = "3.5.0", "9.3.1"
KNN = "opensearch-knn"
# What of a plugin that is not on Maven Central k-NN refers to, and never calls here.
STUBS = {
    "org/opensearch/protobufs/QueryContainer.java": "package org.opensearch.protobufs; public final class QueryContainer { public enum QueryContainerCase { KNN } }",
    **{
        f"org/opensearch/transport/grpc/spi/{name}.java": f"package org.opensearch.transport.grpc.spi; public interface {name} {{}}"
        for name in ("QueryBuilderProtoConverter", "QueryBuilderProtoConverterRegistry")
    },
}


@dataclass(frozen=True, slots=True)
class Module:
    """A folder under modules/. ``jars``: patterns of its jars among all of them."""

    name: str
    main: str
    jars: tuple[str, ...]


MODULES = (
    Module("analysis-common", "org.opensearch.analysis.common.CommonAnalysisModulePlugin", ("analysis-common-*",)),
    Module("lang-painless", "org.opensearch.painless.PainlessModulePlugin", ("lang-painless-*", "antlr4-*", "asm-*", "*-painless-spi-*")),
    Module("transport-netty4", "org.opensearch.transport.Netty4ModulePlugin", ("transport-netty4-*", "netty-*", "opensearch-netty4-*")),
    Module("reindex", "org.opensearch.index.reindex.ReindexModulePlugin", ("reindex-client-*", "opensearch-ssl-config-*", "opensearch-rest-client-*", "httpclient5-*", "httpcore5-*")),
)  # fmt: skip


def main() -> int:
    builders = {"opensearch": opensearch, "elasticsearch": elasticsearch}
    for name in sys.argv[1:] or builders:
        home = CLIENTS / name
        shutil.rmtree(home, ignore_errors=True)
        (home / "lib").mkdir(parents=True)
        (home / "plugins").mkdir()
        print(builders[name](home))
    return 0


def opensearch(home: Path) -> Path:
    """The program."""
    plugin, server = f"org.opensearch.plugin:{{}}:{OPENSEARCH}", f"org.opensearch:{{}}:{OPENSEARCH}"
    modules = ("analysis-common", "lang-painless", "transport-netty4-client", "reindex-client")
    artifacts = [
        server.format("opensearch"),
        server.format("opensearch-plugin-classloader"),
        *map(plugin.format, modules),
    ]
    logging, guava = "org.apache.logging.log4j:log4j-core:2.25.3", "com.google.guava:guava:33.2.1-jre"
    fetch([*artifacts, logging, guava, f"org.opensearch.plugin:{KNN}:{OPENSEARCH}.0:zip"], home / "lib")
    knn = home / "plugins" / KNN
    (packed,) = (home / "lib").glob(f"{KNN}-*.zip")
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(knn)
    packed.unlink()
    for needed in ("guava-*", "failureaccess-*"):
        move((home / "lib").glob(needed), knn)
    for jar in knn.glob("*.jar"):
        if (home / "lib" / jar.name).exists():  # no class may be in two places
            jar.unlink()
    descriptor = knn / "plugin-descriptor.properties"
    descriptor.write_text(descriptor.read_text().replace(",transport-grpc", ""))
    with tempfile.TemporaryDirectory() as folder:
        for name, text in STUBS.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        compiled([str(Path(folder, name)) for name in STUBS], (), knn / "absent.jar")
    for module in MODULES:
        folder_of = home / "modules" / module.name
        folder_of.mkdir(parents=True)
        for pattern in module.jars:
            move((home / "lib").glob(f"{pattern}.jar"), folder_of)
        describe(folder_of, module.name, module.main, f"opensearch.version={OPENSEARCH}", OPENSEARCH)
    compiled([str(HERE / "OpenSearchNode.java")], (home / "lib").glob("*.jar"), home / "lib" / "start.jar")
    return program(home, "OpenSearchNode")


def elasticsearch(home: Path) -> Path:
    """The program."""
    fetch([f"org.elasticsearch:elasticsearch:{ELASTICSEARCH}"], home / "lib")
    module = home / "modules" / "loopback"
    module.mkdir(parents=True)
    compiled([str(HERE / "Loopback.java")], (home / "lib").glob("*.jar"), module / "loopback.jar")
    describe(module, "loopback", "Loopback", f"elasticsearch.version={ELASTICSEARCH}", ELASTICSEARCH)
    compiled([str(HERE / "ElasticsearchNode.java")], (home / "lib").glob("*.jar"), home / "lib" / "start.jar")
    return program(home, "ElasticsearchNode")


def fetch(artifacts: list[str], folder: Path) -> None:
    """The artifacts, and what they need, into the folder."""
    entries = []
    for group, name, version, *kind in (artifact.split(":") for artifact in artifacts):
        entries.append(f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version><type>{(kind or ['jar'])[0]}</type></dependency>")  # fmt: skip
    head = '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>node</artifactId><version>1</version>'
    with tempfile.TemporaryDirectory() as place:
        Path(place, "pom.xml").write_text(f"{head}<dependencies>{''.join(entries)}</dependencies></project>")
        subprocess.run(
            ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}"], cwd=place, check=True
        )


def compiled(sources: list[str], classpath: Iterable[Path], jar: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = os.pathsep.join(map(str, classpath)) or "."
        subprocess.run([java("javac"), "-nowarn", "-cp", path, "-d", place, *sources], check=True)
        subprocess.run([java("jar"), "cf", str(jar), "-C", place, "."], check=True)


def describe(folder: Path, name: str, main: str, requirement: str, version: str) -> None:
    lines = {"description": name, "version": version, "name": name, "classname": main, "java.version": "21"}
    extra = (
        "custom.foldername=\nextended.plugins=\nhas.native.controller=false\n" if "opensearch" in requirement else ""
    )
    text = "".join(f"{key}={value}\n" for key, value in lines.items())
    (folder / "plugin-descriptor.properties").write_text(f"{text}{requirement}\n{extra}")


def program(home: Path, main: str) -> Path:
    made = home / "bin" / home.name
    made.parent.mkdir()
    made.write_text(
        f"#!/bin/sh\nexec '{java('java')}' -Xmx1g --enable-native-access=ALL-UNNAMED --add-modules jdk.incubator.vector "
        f"-Dnode.home='{home}' -cp '{home}/lib/*' {main} \"$@\"\n"
    )
    made.chmod(0o755)
    return made


def java(tool: str) -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", tool)) if home else tool


def move(paths: Iterable[Path], folder: Path) -> None:
    for path in list(paths):
        path.rename(folder / path.name)


if __name__ == "__main__":
    sys.exit(main())
