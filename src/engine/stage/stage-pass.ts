// What a pass is to a stage: rows of several requests, and the units that they go through one after the other.

/** New tokens of one request, in rows one after the other. */
export interface StageEntry {
  readonly request: string;
  /** Of the first new token. What the request had from there on is gone. */
  readonly position: number;
  readonly tokens: number;
  /** Which of a bank of adapters its rows use; absent and 0: none. */
  readonly adapter?: number;
  /** The request begins with the first positions of another, whole pages of them. */
  readonly shared?: { readonly request: string; readonly positions: number };
}

export interface StageRows {
  readonly entries: readonly StageEntry[];
  /** Rows whose logits are asked for. */
  readonly selected: readonly number[];
  /** Rows whose hidden states are asked for. */
  readonly hidden: readonly number[];
}

/** A value that goes from one unit to another, rounded as it would be on its way between machines. */
export interface StageEdge {
  readonly from: string;
  readonly output: string;
  readonly to: string;
  readonly input: string;
  readonly wire: "float32" | "float16" | "bfloat16" | "int8" | "int32";
}

export interface StagePass extends StageRows {
  /** Names of units, in order. */
  readonly units: readonly string[];
  readonly edges: readonly StageEdge[];
  /** Outputs that leave the stage. */
  readonly wanted: readonly { readonly unit: string; readonly output: string }[];
}
