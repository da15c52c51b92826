import { X } from "lucide-react";
import { Dialog as Radix } from "radix-ui";
import type { ReactNode } from "react";
import { Button } from "./Button";

type DialogProps = { open: boolean; onClose: () => void; title: ReactNode; text?: ReactNode; children?: ReactNode };

export function Dialog({ open, onClose, title, text, children }: DialogProps) {
  return (
    <Radix.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="dialog-scrim" />
        <Radix.Content className="dialog" aria-describedby={text ? undefined : ""}>
          <Radix.Title className="break">{title}</Radix.Title>
          {text && <Radix.Description className="muted break">{text}</Radix.Description>}
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

/** A page's detail beside it: has an address of its own, closes with Escape. */
export function Drawer({ onClose, title, side, children }: { onClose: () => void; title: ReactNode; side?: ReactNode; children: ReactNode }) {
  return (
    <Radix.Root open onOpenChange={(next) => !next && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="dialog-scrim" />
        <Radix.Content className="drawer" aria-describedby="">
          <header>
            <Radix.Title className="clip grow">{title}</Radix.Title>
            {side}
            <Button tone="ghost" icon aria-label="Close" onClick={onClose}>
              <X size={16} aria-hidden />
            </Button>
          </header>
          <div className="body">{children}</div>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
