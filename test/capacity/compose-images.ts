// Images that stand in for those of deploy/compose.yaml that would come from a registry: nothing is pulled here. PostgreSQL is
// Debian's own, told by the same variables; the S3 server is s3rver in MinIO's place, with the bucket that `mc` would make.

import { execFile } from "node:child_process";
import { mkdir, rename, stat, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { DockerEngine } from "./docker-engine.ts";

const run = promisify(execFile);
const rawBytesMax = 64 << 20;
const debianImage = "dcnr-debian-postgres";

/** As the official image begins: a database of that name and owner, made once. */
const postgresEntry = `#!/bin/sh
set -e
export PATH="$PATH:$(echo /usr/lib/postgresql/*/bin)" PGDATA=/var/lib/postgresql/data
mkdir -p "$PGDATA" /run/postgresql
chown postgres "$PGDATA" /run/postgresql
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  echo "$POSTGRES_PASSWORD" > /tmp/password
  chmod 644 /tmp/password
  su postgres -c "PATH=$PATH initdb -D $PGDATA -U $POSTGRES_USER --encoding=UTF8 --locale=C --pwfile=/tmp/password --auth-host=scram-sha-256" > /dev/null
  echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
  echo "CREATE DATABASE $POSTGRES_DB;" | su postgres -c "PATH=$PATH postgres --single -D $PGDATA postgres" > /dev/null
fi
exec su postgres -c "PATH=$PATH exec postgres -D $PGDATA -c listen_addresses='*'"
`;

/** Given \`server /data\` like MinIO, and the key of its root. */
const s3Server = `
const S3rver = require("/build/node_modules/s3rver");
const { DUMMY_ACCOUNT } = require("/build/node_modules/s3rver/lib/models/account.js");
DUMMY_ACCOUNT.createKeyPair(process.env.MINIO_ROOT_USER, process.env.MINIO_ROOT_PASSWORD);
new S3rver({ port: 9000, address: "0.0.0.0", silent: true, vhostBuckets: false, directory: "/data", configureBuckets: [{ name: "dcnr", configs: [] }] }).run();
process.on("SIGTERM", () => process.exit(0));
`;

/** Makes all of them, for whoever has the image of deploy/Dockerfile's first stage. */
export async function makeStandIns(engine: DockerEngine, folder: string, buildStage: string): Promise<void> {
  await makePostgres(engine, folder);
  const made = join(folder, "stand-ins");
  await mkdir(made, { recursive: true });
  await writeFile(join(made, "server.cjs"), s3Server);
  const s3 = `FROM ${buildStage}\nCOPY server.cjs /server.cjs\nENTRYPOINT ["node", "/server.cjs"]\n`;
  // The bucket is there already: whoever waits for it is told so.
  const client = `FROM ${buildStage}\nRUN printf '#!/bin/sh\\nexit 0\\n' > /usr/local/bin/mc && chmod 755 /usr/local/bin/mc\n`;
  for (const [tag, text] of [
    ["minio/minio", s3],
    ["minio/mc", client],
  ] as const) {
    await writeFile(join(made, "Dockerfile"), text);
    await engine.docker("build", "--network", "none", "--tag", tag, made);
  }
}

async function makePostgres({ docker }: DockerEngine, folder: string): Promise<void> {
  if ((await docker("images", "-q", debianImage)) === "") {
    const archive = join(folder, "postgres.tar");
    await run("tar", ["-C", await debianWithPostgres(), "-cf", archive, "."]);
    await docker("import", archive, debianImage);
  }
  const made = join(folder, "postgres");
  await mkdir(made, { recursive: true });
  await writeFile(join(made, "entry.sh"), postgresEntry, { mode: 0o755 });
  await writeFile(
    join(made, "Dockerfile"),
    `FROM ${debianImage}\nCOPY entry.sh /entry.sh\nSTOPSIGNAL SIGINT\nENTRYPOINT ["/entry.sh"]\n`,
  );
  await docker("build", "--network", "none", "--tag", "postgres:17-alpine", made);
}

/** Kept between runs. */
async function debianWithPostgres(): Promise<string> {
  const cache = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "dcnr", "debian-bookworm-postgresql");
  const isThere = await stat(cache).then(
    () => true,
    () => false,
  );
  if (isThere) return cache;
  const making = `${cache}-${process.pid}`;
  const words = ["--variant=minbase", "--include=postgresql", "bookworm", making, "http://deb.debian.org/debian"];
  await run("debootstrap", words, { maxBuffer: rawBytesMax });
  await rename(making, cache);
  return cache;
}
