import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { ProblemBox } from "./feedback";
import { Field } from "./Field";

type ConfirmProps = {
  open: boolean;
  onClose: () => void;
  title: ReactNode;
  text?: ReactNode;
  act: string;
  danger?: boolean;
  /** Asks for a reason, which goes into the history. */
  reason?: boolean;
  onConfirm: (reason: string) => Promise<unknown>;
  children?: ReactNode;
};

/** Says what will happen before it does, and why it did not when it fails. */
export function ConfirmDialog({ open, onClose, title, text, act, danger, reason, onConfirm, children }: ConfirmProps) {
  const [why, setWhy] = useState("");
  const done = useMutation({ mutationFn: () => onConfirm(why.trim()), onSuccess: close });
  function close() {
    done.reset();
    setWhy("");
    onClose();
  }
  return (
    <Dialog open={open} onClose={close} title={title} text={text}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          done.mutate();
        }}
      >
        {children}
        {reason && (
          <Field label="Reason (for the history)">
            {(field) => <input {...field} className="input" maxLength={200} value={why} onChange={(e) => setWhy(e.target.value)} />}
          </Field>
        )}
        {done.error && <ProblemBox error={done.error} />}
        <div className="actions">
          <Button onClick={close}>Cancel</Button>
          <Button type="submit" tone={danger ? "danger" : "primary"} disabled={done.isPending}>
            {done.isPending ? "Working…" : act}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
