import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { useSignIn } from "@/api/session";
import { Button } from "@/components/Button";
import { Field } from "@/components/Field";
import { ProblemBox } from "@/components/feedback";

/** Stands in for the page that was asked for until the session begins. `before`: whose session ended. */
export function SignIn({ before }: { before: string | undefined }) {
  const [token, setToken] = useState("");
  const signIn = useSignIn();
  const signed = useMutation({ mutationFn: () => signIn(token.trim(), before), onSettled: () => setToken("") });
  useEffect(() => {
    document.title = "Sign in · Medley";
  }, []);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    signed.mutate();
  };
  return (
    <main className="sign-in">
      <form className="card" onSubmit={submit}>
        <div className="brand">
          <img src="/icon.svg" alt="" />
          <h1>Sign in to Medley</h1>
        </div>
        {before !== undefined && !signed.error && <p className="muted">Your session has ended. Sign in again to go on where you were.</p>}
        <Field label="API token">
          {(field) => (
            <input
              {...field}
              className="input"
              type="password"
              autoComplete="off"
              required
              maxLength={200}
              value={token}
              onChange={(event) => setToken(event.target.value)}
            />
          )}
        </Field>
        {signed.error && <ProblemBox error={signed.error} />}
        <Button type="submit" tone="primary" disabled={signed.isPending}>
          {signed.isPending ? "Signing in…" : "Sign in"}
        </Button>
        <p className="muted">
          Where Medley runs, <code>medley token create you --role operator</code> prints one. It is sent once, for a cookie that no script
          can read.
        </p>
      </form>
    </main>
  );
}
