import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, got } from "@/api/client";
import { useSession } from "@/api/session";
import { ActButton } from "@/components/Button";
import { ProblemBox } from "@/components/feedback";
import { Field } from "@/components/Field";

const DAY_MS = 86_400_000;

/** The key that the gateway is asked with, for as long as this page is open: it is stored nowhere. */
export function KeyField({ value, onChange }: { value: string; onChange: (key: string) => void }) {
  const client = useQueryClient();
  const { name } = useSession();
  const made = useMutation({
    mutationFn: () =>
      got(
        api.POST("/api/v1/tokens", {
          body: { name: `playground of ${name}`.slice(0, 300), role: "client", project: "default", expires_at: new Date(Date.now() + DAY_MS).toISOString(), priority: "standard" },
        }),
      ),
    onSuccess: async (token) => {
      onChange(token.token);
      await client.invalidateQueries({ queryKey: ["tokens"] });
    },
    gcTime: 0,
  });
  return (
    <>
      <Field label="Key for the gateway, where it asks for one">
        {(field) => <input {...field} className="input mono" type="password" autoComplete="off" value={value} onChange={(event) => onChange(event.target.value)} />}
      </Field>
      {!value && (
        <div className="row">
          <ActButton operation="create_token" small refusal={made.isPending ? "It is being made." : ""} onClick={() => made.mutate()}>
            Make one for a day
          </ActButton>
        </div>
      )}
      <ProblemBox error={made.error} />
      {made.data && value === made.data.token && <p className="muted">It works within seconds, and is in the list of tokens as “{made.data.name}”.</p>}
    </>
  );
}
