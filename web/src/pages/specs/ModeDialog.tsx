import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { CHOICES } from "@/../generated/choices";
import { api, got, type Schemas } from "@/api/client";
import type { Mode } from "@/api/specs";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { ProblemBox } from "@/components/feedback";

export const MODES: Record<Mode, string> = {
  observe: "Plan, price and explain; rent and end nothing.",
  approve: "Propose plans, and act on those that somebody approves. What fails is replaced without asking.",
  auto: "Act on every plan.",
};

/** How far the control plane may go with a fleet. */
export function ModeDialog({ fleet, onClose }: { fleet: Schemas["Fleet"]; onClose: () => void }) {
  const client = useQueryClient();
  const [mode, setMode] = useState<Mode>(fleet.mode);
  const done = useMutation({
    mutationFn: () => got(api.POST("/api/v1/fleets/{fleet}:set-mode", { params: { path: { fleet: fleet.name } }, body: { mode, preflight: true } })),
    onSuccess: async () => {
      await client.invalidateQueries({ predicate: (query) => ["fleets", "status", "plans"].includes(String(query.queryKey[0])) });
      onClose();
    },
  });
  return (
    <Dialog open onClose={onClose} title={`Mode of ${fleet.name}`} text="How far the control plane may go by itself. Instances that run stay as they are.">
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          done.mutate();
        }}
      >
        <ModeChoice mode={mode} onChange={setMode} />
        <ProblemBox error={done.error} />
        <div className="actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" tone="primary" disabled={done.isPending} refusal={mode === fleet.mode ? "It is in this mode already." : ""}>
            {done.isPending ? "Looking at its models…" : `Set mode ${mode}`}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

export function ModeChoice({ mode, onChange }: { mode: Mode; onChange: (mode: Mode) => void }) {
  return (
    <fieldset className="mode-choices">
      <legend className="sr">Mode</legend>
      {CHOICES.FleetMode.map((each) => (
        <label key={each} className="choice">
          <input type="radio" name="mode" checked={mode === each} onChange={() => onChange(each)} />
          <span>
            <strong>{each}</strong>
            <span className="muted">{MODES[each]}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}
