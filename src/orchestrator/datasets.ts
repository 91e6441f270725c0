// Dataset records: a name that points to a manifest by its hash.

import type { Sha256 } from "../core/ids.ts";

export interface DatasetRecord {
  readonly name: string;
  /** Blob of the manifest's canonical text: the dataset's identity. */
  readonly hash: Sha256;
  readonly kind: string;
  readonly samples: number;
  readonly bytes: number;
  readonly splits: readonly { readonly name: string; readonly samples: number }[];
  readonly fields: readonly { readonly name: string; readonly dtype: string; readonly shape: readonly number[] }[];
  readonly createdWallMs: number;
}

export const datasetsPrefix = "dataset/";

export function datasetKey(name: string): string {
  return `${datasetsPrefix}${name}`;
}
