// PNodes as processes of the orchestrator's own machine: for trying out, for tests, and for a large machine that should take
// part only while there is work. They outlive the orchestrator, which finds them again.

import { checkShell, listOn, logsOn, type MachineShell, shapeOf, startOn, stopOn } from "./machine-shell.ts";
import { findings, type Offer, type Provider, type ProviderSettings, type ProviderTools } from "./provider.ts";

/** Starting and measuring takes some seconds, on a busy machine more. */
const bootSeconds = 20;

export function openProcess(settings: ProviderSettings, tools: ProviderTools): Provider {
  const shell: MachineShell = {
    place: "this machine",
    program: settings.parameters["program"] ?? tools.program,
    folder: settings.parameters["folder"] ?? tools.folder,
    flags: [],
    run: (script) => tools.command("sh", ["-s"], { input: script }),
  };
  const offers = async (): Promise<readonly Offer[]> => {
    if (settings.offers.length > 0) return settings.offers;
    return [{ ...(await shapeOf(shell)), ...here }];
  };
  return {
    test: () =>
      findings(
        () => checkShell(shell),
        async () => `it offers ${(await offers()).length} kind(s) of machine`,
      ),
    offers,
    start: (offer, wanted) => startOn(shell, settings, offer, wanted),
    list: () => listOn(shell, settings),
    stop: (seen, hurry = false) => stopOn(shell, settings, seen, hurry),
    logs: (seen) => logsOn(shell, settings, seen),
  };
}

const here = {
  name: "whole",
  gpus: 0,
  gpuMemoryBytes: 0,
  gpuType: "",
  pricePerHour: 0,
  region: "",
  spot: false,
  most: 1,
  bootSeconds,
};
