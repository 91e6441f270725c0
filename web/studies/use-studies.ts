// Studies as the orchestrator knows them: all of them in short, the chosen one whole.

import type { Study } from "../../src/protocol/gen/dcnr/v1/study_pb.ts";
import { studies } from "../api.ts";
import { useAsked } from "../live/asked.ts";

/** Undefined until it is known whether there are any. */
export function useStudies(): readonly Study[] | undefined {
  return useAsked("studies", async () => (await studies.listStudies({ pageSize: 100 })).studies).value;
}

/** Undefined until it is known. */
export function useStudy(id: string): Study | undefined {
  return useAsked(id, async () => (id === "" ? undefined : (await studies.getStudy({ id })).study)).value;
}
