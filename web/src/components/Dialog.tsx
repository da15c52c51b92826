import { X } from "lucide-react";
import { Dialog as Radix } from "radix-ui";
import { type ReactNode, useRef } from "react";
import { Button } from "./Button";

type DialogProps = { open: boolean; onClose: () => void; title: ReactNode; text?: ReactNode; children?: ReactNode };

/** Who leaves goes on where they were: what opened it may be a link or a row, of which the primitive knows nothing. */
export function useWayBack() {
  const from = useRef<Element | null>(null);
  return {
    onOpenAutoFocus: () => {
      from.current = document.activeElement;
    },
    onCloseAutoFocus: (event: Event) => {
      event.preventDefault();
      const isThere = from.current instanceof HTMLElement && from.current.isConnected && from.current !== document.body;
      (isThere ? (from.current as HTMLElement) : document.getElementById("main"))?.focus({ preventScroll: true });
    },
  };
}

export function Dialog({ open, onClose, title, text, children }: DialogProps) {
  const wayBack = useWayBack();
  return (
    <Radix.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="dialog-scrim" />
        <Radix.Content className="dialog" {...wayBack} aria-describedby={text ? undefined : ""}>
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
  const wayBack = useWayBack();
  return (
    <Radix.Root open onOpenChange={(next) => !next && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="dialog-scrim" />
        <Radix.Content className="drawer" {...wayBack} aria-describedby="">
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
