import { X } from "lucide-react";
import { Dialog as Radix } from "radix-ui";
import { type ReactNode, type RefObject, useLayoutEffect, useRef } from "react";
import { Button } from "./Button";

const shown: RefObject<() => void>[] = [];

/** Closes what is on top. The primitive asks the layer below it for a moment after another is shown (radix-ui/primitives#4143). */
function useEscape(onClose: () => void) {
  const close = useRef(onClose);
  useLayoutEffect(() => {
    close.current = onClose;
  });
  useLayoutEffect(() => {
    shown.push(close);
    return () => void shown.splice(shown.indexOf(close), 1);
  }, []);
  return (event: KeyboardEvent) => {
    event.preventDefault();
    shown.at(-1)?.current();
  };
}

/** Who leaves goes on where they were: what opened it may be a link or a row, of which the primitive knows nothing. */
function useWayBack() {
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

type PanelProps = { onClose: () => void; className: string; isDescribed?: boolean; children: ReactNode };

/** A component of its own, as it is mounted only while the dialog is open. */
function Panel({ onClose, className, isDescribed, children }: PanelProps) {
  const wayBack = useWayBack();
  const onEscapeKeyDown = useEscape(onClose);
  return (
    <Radix.Content className={className} {...wayBack} onEscapeKeyDown={onEscapeKeyDown} aria-describedby={isDescribed ? undefined : ""}>
      {children}
    </Radix.Content>
  );
}

/** Over everything else until Escape or a click beside it. Its title and, with `isDescribed`, its description are among `children`. */
export function Modal({ open, ...panel }: PanelProps & { open: boolean }) {
  return (
    <Radix.Root open={open} onOpenChange={(next) => !next && panel.onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="dialog-scrim" />
        <Panel {...panel} />
      </Radix.Portal>
    </Radix.Root>
  );
}

type DialogProps = { open: boolean; onClose: () => void; title: ReactNode; text?: ReactNode; children?: ReactNode };

export function Dialog({ open, onClose, title, text, children }: DialogProps) {
  return (
    <Modal open={open} onClose={onClose} className="dialog" isDescribed={Boolean(text)}>
      <Radix.Title className="break">{title}</Radix.Title>
      {text && <Radix.Description className="muted break">{text}</Radix.Description>}
      {children}
    </Modal>
  );
}

/** A page's detail beside it: has an address of its own. */
export function Drawer({ onClose, title, side, children }: { onClose: () => void; title: ReactNode; side?: ReactNode; children: ReactNode }) {
  return (
    <Modal open onClose={onClose} className="drawer">
      <header>
        <Radix.Title className="clip grow">{title}</Radix.Title>
        {side}
        <Button tone="ghost" icon aria-label="Close" onClick={onClose}>
          <X size={16} aria-hidden />
        </Button>
      </header>
      <div className="body">{children}</div>
    </Modal>
  );
}
