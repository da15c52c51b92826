import { useMutation } from "@tanstack/react-query";
import { api, got } from "@/api/client";
import { ActButton } from "@/components/Button";
import { Badge } from "@/components/Badge";

/** Sends a trial now; what the receiver answered stands beside it. */
export function TryButton({ webhook }: { webhook: string }) {
  const trial = useMutation({ mutationFn: () => got(api.POST("/api/v1/webhooks/{webhook}:test", { params: { path: { webhook } } })) });
  return (
    <>
      <span role="status" className="break">
        {trial.data && <Badge tone={trial.data.delivered ? "good" : "bad"}>{trial.data.outcome.slice(0, 80)}</Badge>}
        {trial.error && <Badge tone="bad">{trial.error.message.slice(0, 80)}</Badge>}
      </span>
      <ActButton operation="try_webhook" small aria-label={`Try ${webhook}`} refusal={trial.isPending ? "It is being tried." : ""} onClick={() => trial.mutate()}>
        Try
      </ActButton>
    </>
  );
}
