import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { Token } from "@/api/access";
import { api, got } from "@/api/client";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { ProblemBox } from "@/components/feedback";
import { Field } from "@/components/Field";
import { Secret } from "./Secret";

const GRACES = [
  { value: "0", label: "not at all" },
  { value: "1", label: "an hour" },
  { value: "24", label: "a day" },
  { value: "168", label: "a week" },
] as const;

/** Makes a token in place of another, which works on for a while, so that nobody is cut off. */
export function RotateDialog({ token, onClose }: { token: Token; onClose: () => void }) {
  const client = useQueryClient();
  const [hours, setHours] = useState<string>("24");
  const made = useMutation({
    mutationFn: () => got(api.POST("/api/v1/tokens/{token_id}:rotate", { params: { path: { token_id: token.id } }, body: { grace_hours: Number(hours) } })),
    onSuccess: () => client.invalidateQueries({ queryKey: ["tokens"] }),
    gcTime: 0, // the secret goes with the dialog
  });
  if (made.data) return <Secret name={made.data.name} token={made.data.token} onClose={onClose} />;
  return (
    <Dialog open onClose={onClose} title={`Rotate ${token.name}?`} text="A new token is made with the same role, project and limits. Give it to whoever uses the old one, which ends by itself.">
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          made.mutate();
        }}
      >
        <Field label="The old one works on for">
          {(field) => (
            <select {...field} className="select" value={hours} onChange={(event) => setHours(event.target.value)}>
              {GRACES.map((each) => <option key={each.value} value={each.value}>{each.label}</option>)}
            </select>
          )}
        </Field>
        <ProblemBox error={made.error} />
        <div className="actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" tone="primary" disabled={made.isPending}>Make the new token</Button>
        </div>
      </form>
    </Dialog>
  );
}
