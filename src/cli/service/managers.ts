// The service managers that machines have, each as data: what its definition says, where it lies, and which commands
// start it, end it and ask after it. Nothing runs here.

import { join } from "node:path";
import { fail } from "../../core/errors.ts";

export type ServiceKind = "systemd" | "launchd" | "windows";

export const serviceKinds: readonly ServiceKind[] = ["systemd", "launchd", "windows"];

export interface Service {
  /** The program and its arguments. */
  readonly words: readonly string[];
  /** Lent; 0 if there is no limit. */
  readonly memoryBytes: number;
}

export interface ServiceManager {
  readonly kind: ServiceKind;
  /** Where the definition lies. */
  readonly file: string;
  definition(service: Service): string;
  /** In this order; the first that fails ends it. */
  readonly start: readonly (readonly string[])[];
  /** As far as they go: what is not there need not be ended. */
  readonly end: readonly (readonly string[])[];
  /** After the definition is gone. */
  readonly forget: readonly (readonly string[])[];
  /** Ends with 0 where it runs. */
  readonly ask: readonly string[];
  /** Lets it run while nobody is logged in, where that is a step of its own that may be refused. */
  readonly stay?: { readonly command: readonly string[]; readonly advice: string };
}

/** Whose service it is. */
export interface ServiceUser {
  readonly home: string;
  readonly name: string;
  readonly id: number;
}

export function serviceKindOf(platform: string): ServiceKind {
  if (platform === "linux") return "systemd";
  if (platform === "darwin") return "launchd";
  if (platform === "win32") return "windows";
  return fail(
    "failed_precondition",
    `dcnr knows no service manager of ${platform}: start dcnr join --wait by your own`,
  );
}

export function serviceManager(kind: ServiceKind, user: ServiceUser): ServiceManager {
  if (kind === "systemd") return systemd(user);
  return kind === "launchd" ? launchd(user) : windows(user);
}

/** Left on purpose it ends with 0, and stays away until the next start; whatever else ends it is an accident. */
function systemd({ home, name }: ServiceUser): ServiceManager {
  const systemctl = ["systemctl", "--user"];
  return {
    kind: "systemd",
    file: join(home, ".config", "systemd", "user", "dcnr.service"),
    definition: ({ words, memoryBytes }) => `[Unit]
Description=DCNR PNode: this machine is lent
After=network-online.target

[Service]
ExecStart=${words.map(quoteUnit).join(" ")}
Restart=on-failure
RestartSec=5
TimeoutStopSec=60
Nice=10
NoNewPrivileges=true
${memoryBytes > 0 ? `MemoryMax=${ceilingOf(memoryBytes)}\n` : ""}
[Install]
WantedBy=default.target
`,
    start: [
      [...systemctl, "daemon-reload"],
      [...systemctl, "enable", "--now", "dcnr"],
    ],
    end: [[...systemctl, "disable", "--now", "dcnr"]],
    forget: [[...systemctl, "daemon-reload"]],
    ask: [...systemctl, "is-active", "--quiet", "dcnr"],
    stay: {
      command: ["loginctl", "enable-linger", name],
      advice: `it runs while you are logged in; to lend the machine always: sudo loginctl enable-linger ${name}`,
    },
  };
}

function launchd({ home, id }: ServiceUser): ServiceManager {
  const file = join(home, "Library", "LaunchAgents", "dcnr.plist");
  return {
    kind: "launchd",
    file,
    definition: ({ words }) => `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
  <key>Label</key><string>dcnr</string>
  <key>ProgramArguments</key><array>
${words.map((word) => `    <string>${quoteXml(word)}</string>`).join("\n")}
  </array>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>Nice</key><integer>10</integer>
</dict></plist>
`,
    start: [["launchctl", "bootstrap", `gui/${id}`, file]],
    end: [["launchctl", "bootout", `gui/${id}/dcnr`]],
    forget: [],
    ask: ["launchctl", "print", `gui/${id}/dcnr`],
  };
}

/** A task's own command may have 261 characters: the file has the rest. */
function windows({ home }: ServiceUser): ServiceManager {
  const file = join(home, "AppData", "Local", "dcnr", "service.cmd");
  return {
    kind: "windows",
    file,
    definition: ({ words }) =>
      `@echo off\r\nrem DCNR PNode: this machine is lent\r\n${words.map(quoteCmd).join(" ")}\r\n`,
    start: [
      ["schtasks", "/Create", "/F", "/SC", "ONLOGON", "/TN", "dcnr", "/TR", `"${file}"`],
      ["schtasks", "/Run", "/TN", "dcnr"],
    ],
    end: [
      ["schtasks", "/End", "/TN", "dcnr"],
      ["schtasks", "/Delete", "/F", "/TN", "dcnr"],
    ],
    forget: [],
    ask: ["schtasks", "/Query", "/TN", "dcnr"],
  };
}

/** Placement counts with what is lent; the program itself and what the system keeps for it come on top. */
function ceilingOf(memoryBytes: number): number {
  return Math.ceil(memoryBytes * 1.25 + 2 ** 29);
}

/** In units a percent sign begins a specifier, and a dollar sign a variable. */
function quoteUnit(word: string): string {
  const literal = word.replaceAll("%", "%%").replaceAll("$", "$$$$");
  return /^[\w@%+=:,./-]+$/.test(literal) ? literal : `"${literal.replace(/["\\]/g, "\\$&")}"`;
}

function quoteXml(word: string): string {
  return word.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function quoteCmd(word: string): string {
  const literal = word.replaceAll("%", "%%");
  return /[\s&|<>^"]/.test(literal) ? `"${literal.replaceAll('"', '""')}"` : literal;
}
