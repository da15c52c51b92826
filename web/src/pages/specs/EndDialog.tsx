import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, got, type Schemas } from "@/api/client";
import { ApiProblem } from "@/api/problem";
import { source } from "@/api/specs";
import { ConfirmDialog } from "@/components/ConfirmDialog";
import { Warning } from "@/components/feedback";

/** Ends a fleet; what serves is named, and has to be wanted once more. */
export function EndDialog({ fleet, onClose }: { fleet: Schemas["Fleet"]; onClose: () => void }) {
  const client = useQueryClient();
  const [serving, setServing] = useState<string[]>([]);
  const end = async () => {
    const { etag } = await client.fetchQuery(source(fleet.name));
    const params = { path: { fleet: fleet.name }, header: { "if-match": etag }, query: { confirm: serving } };
    try {
      await got(api.DELETE("/api/v1/fleets/{fleet}", { params }));
    } catch (error) {
      if (error instanceof ApiProblem && error.kind === "serves-traffic") setServing(servingOf(error));
      throw error;
    }
    await client.invalidateQueries({ predicate: (query) => ["fleets", "status", "plans", "instances"].includes(String(query.queryKey[0])) });
  };
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`End ${fleet.name}?`}
      text="Its instances finish the requests that they have and are given back; then its record is removed. What it cost and what happened to it stay on record."
      act={serving.length ? "Drain them and end the fleet" : "End the fleet"}
      danger
      onConfirm={end}
    >
      {serving.length > 0 && <Warning>It serves {serving.join(", ")} now: their clients would get no answer.</Warning>}
    </ConfirmDialog>
  );
}

/** Models that a refusal says are being served. */
export function servingOf(problem: ApiProblem): string[] {
  const models = problem.document.facts?.models;
  return models && typeof models === "object" ? Object.keys(models) : [];
}
