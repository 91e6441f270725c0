// `dcnr join --service`: how to keep a PNode running, for the service managers people have.

import { fail } from "../core/errors.ts";

export type ServiceKind = "systemd" | "launchd" | "windows";

/** `memoryBytes`: lent; 0 if there is no limit. */
export function serviceRecipe(
  kind: string,
  program: readonly string[],
  args: readonly string[],
  memoryBytes = 0,
): string {
  const words = [...program, ...args];
  switch (kind) {
    case "systemd":
      return `# Save as ~/.config/systemd/user/dcnr.service, then: systemctl --user enable --now dcnr
[Unit]
Description=DCNR PNode
After=network-online.target

[Service]
ExecStart=${words.map(quoteShell).join(" ")}
Restart=always
RestartSec=5
Nice=10
NoNewPrivileges=true
${memoryBytes > 0 ? `MemoryMax=${ceilingOf(memoryBytes)}\n` : ""}
[Install]
WantedBy=default.target
`;
    case "launchd":
      return `<?xml version="1.0" encoding="UTF-8"?>
<!-- Save as ~/Library/LaunchAgents/dcnr.plist, then: launchctl load ~/Library/LaunchAgents/dcnr.plist -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
  <key>Label</key><string>dcnr</string>
  <key>ProgramArguments</key><array>
${words.map((word) => `    <string>${quoteXml(word)}</string>`).join("\n")}
  </array>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><true/>
  <key>Nice</key><integer>10</integer>
</dict></plist>
`;
    case "windows":
      return `rem Run once in a terminal: starts the PNode whenever you log on.
schtasks /Create /SC ONLOGON /TN dcnr /TR "${words.map((word) => (/\s/.test(word) ? `\\"${word}\\"` : word)).join(" ")}"
`;
    default:
      return fail("invalid_argument", `--service is one of systemd, launchd, windows, not "${kind}"`);
  }
}

/** Placement counts with what is lent; the program itself and what the system keeps for it come on top. */
function ceilingOf(memoryBytes: number): number {
  return Math.ceil(memoryBytes * 1.25 + 2 ** 29);
}

function quoteShell(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `"${word.replace(/["\\$`]/g, "\\$&")}"`;
}

function quoteXml(word: string): string {
  return word.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
