// Nothing here yet: says what would be, and the command that makes it so, ready to copy.

import { useState } from "react";

interface EmptyProps {
  readonly text: string;
  readonly commands?: readonly string[];
}

export function Empty({ text, commands = [] }: EmptyProps) {
  return (
    <div className="empty">
      <p>{text}</p>
      {commands.map((command) => (
        <Command key={command} command={command} />
      ))}
    </div>
  );
}

export function Command({ command }: { readonly command: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    // Without a secure origin there is no clipboard; the text can still be selected by hand.
    await navigator.clipboard?.writeText(command).then(
      () => setCopied(true),
      () => {},
    );
    setTimeout(() => setCopied(false), 1_500);
  };
  return (
    <div className="command">
      <code>
        {pieces(command).map((piece) => (
          <span key={piece}>{piece} </span>
        ))}
      </code>
      <button type="button" className="quiet" onClick={copy} aria-label={`Copy: ${command}`}>
        {copied ? "copied" : "copy"}
      </button>
    </div>
  );
}

/** Lines break between options, never inside one. */
function pieces(command: string): string[] {
  return command.split(/ (?=--)/);
}

/** The address that commands must name, unless it is the one they assume. */
export function orchestratorFlag(): string {
  return location.host === "127.0.0.1:7700" || location.host === "localhost:7700"
    ? ""
    : ` --orchestrator ${location.host}`;
}
