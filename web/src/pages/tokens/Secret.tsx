import { Check, Copy } from "lucide-react";
import { useState } from "react";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";

/** Shows a token, this once. */
export function Secret({ name, token, onClose }: { name: string; token: string; onClose: () => void }) {
  const [copied, setCopied] = useState(false);
  return (
    <Dialog open onClose={onClose} title="Copy the token now" text={`It is shown this once. Give it to ${name} over a channel that you trust.`}>
      <code className="secret break" aria-label="The token">{token}</code>
      <div className="actions">
        <Button onClick={() => void navigator.clipboard?.writeText(token).then(() => setCopied(true))}>
          {copied ? <Check size={14} aria-hidden /> : <Copy size={14} aria-hidden />}
          {copied ? "Copied" : "Copy"}
        </Button>
        <Button tone="primary" onClick={onClose}>I have it</Button>
      </div>
    </Dialog>
  );
}
