import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, got, whole } from "@/api/client";
import { type Budget, projects } from "@/api/ledger";
import { fleets } from "@/api/queries";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { ProblemBox } from "@/components/feedback";
import { Field } from "@/components/Field";

/** Makes a budget, or changes or removes one: with the ETag that is read now, so that nobody's change is lost. */
export function BudgetDialog({ budget, onClose }: { budget: Budget | null; onClose: () => void }) {
  const client = useQueryClient();
  const allFleets = useQuery(fleets()).data ?? [];
  const allProjects = useQuery(projects()).data?.items ?? [];
  const [of, setOf] = useState(budget ? `${budget.scope}/${budget.name}` : "project/default");
  const [hour, setHour] = useState(shown(budget?.usd_per_hour_limit));
  const [month, setMonth] = useState(shown(budget?.usd_per_month_limit));
  const [floor, setFloor] = useState(shown(budget?.floor_usd_per_hour || null));
  const [scope, name] = [of.split("/")[0] as Budget["scope"], of.slice(of.indexOf("/") + 1)];
  const path = { scope, name };
  const over = async () => {
    await client.invalidateQueries({ queryKey: ["budgets"] });
    onClose();
  };
  const etag = async () => (await whole(api.GET("/api/v1/budgets/{scope}/{name}", { params: { path } }))).response.headers.get("etag") ?? "";
  const save = useMutation({
    mutationFn: async () => {
      const body = { usd_per_hour_limit: number(hour), usd_per_month_limit: number(month), floor_usd_per_hour: number(floor) ?? 0 };
      const header = budget ? { "if-match": await etag() } : { "if-none-match": "*" };
      return got(api.PUT("/api/v1/budgets/{scope}/{name}", { params: { path, header }, body }));
    },
    onSuccess: over,
  });
  const remove = useMutation({
    mutationFn: async () => got(api.DELETE("/api/v1/budgets/{scope}/{name}", { params: { path, header: { "if-match": await etag() } } })),
    onSuccess: over,
  });
  return (
    <Dialog open onClose={onClose} title={budget ? `Budget of ${budget.scope} ${budget.name}` : "New budget"} text="At least one limit. A fleet that is planned beyond it gives up in steps: more spot, looser objectives, then load.">
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        {!budget && (
          <Field label="Of">
            {(field) => (
              <select {...field} className="select" value={of} onChange={(event) => setOf(event.target.value)}>
                {["default", ...allProjects.map((project) => project.name).filter((each) => each !== "default")].map((each) => (
                  <option key={each} value={`project/${each}`}>project {each}</option>
                ))}
                {allFleets.map((fleet) => (
                  <option key={fleet.name} value={`fleet/${fleet.name}`}>fleet {fleet.name}</option>
                ))}
              </select>
            )}
          </Field>
        )}
        <Dollars label="Dollars an hour" value={hour} set={setHour} />
        <Dollars label="Dollars a calendar month (UTC)" value={month} set={setMonth} />
        <Dollars label="Floor: dollars an hour, granted whatever was spent" value={floor} set={setFloor} />
        <ProblemBox error={save.error ?? remove.error} />
        <div className="actions">
          {budget && (
            <Button tone="danger" disabled={remove.isPending} onClick={() => remove.mutate()}>
              Remove
            </Button>
          )}
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" tone="primary" disabled={save.isPending}>
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function Dollars({ label, value, set }: { label: string; value: string; set: (value: string) => void }) {
  return (
    <Field label={label}>
      {(field) => <input {...field} className="input" type="number" min="0" step="any" value={value} onChange={(event) => set(event.target.value)} />}
    </Field>
  );
}

function shown(value: number | null | undefined): string {
  return value == null ? "" : String(value);
}

function number(text: string): number | null {
  return text.trim() === "" ? null : Number(text);
}
