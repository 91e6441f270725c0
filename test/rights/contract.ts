// All services of the contract, found by their files, so that none can be forgotten where all are meant.

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { DescMethod, DescService } from "@bufbuild/protobuf";

const folder = join(import.meta.dirname, "../../src/protocol/gen/dcnr/v1");

export async function contractServices(): Promise<readonly DescService[]> {
  const files = (await readdir(folder)).filter((name) => name.endsWith("_pb.ts")).sort();
  const modules = await Promise.all(
    files.map((name) => import(join(folder, name)) as Promise<Record<string, unknown>>),
  );
  return modules.flatMap((module) => Object.values(module).filter(isService));
}

function isService(value: unknown): value is DescService {
  return (value as DescService | undefined)?.kind === "service" && Array.isArray((value as DescService).methods);
}

export function nameOf(method: DescMethod): string {
  return `${method.parent.name}/${method.name}`;
}
