import { useQueryClient } from "@tanstack/react-query";
import { CloudOff } from "lucide-react";
import { useEffect } from "react";
import { api } from "@/api/client";
import { lastAnswer, useAway } from "@/api/reach";
import { relative, Time, useNow } from "@/components/figures";

const RETRY_MS = 3_000;

/** The API is away: what is shown stays, with its age; when it is back everything is read again. */
export function AwayBanner() {
  const away = useAway();
  const client = useQueryClient();
  const now = useNow(away, 1_000);
  useEffect(() => {
    if (!away) return;
    const timer = setInterval(async () => {
      const found = await api.GET("/readyz").catch(() => undefined);
      if (found?.response.ok) await client.invalidateQueries();
    }, RETRY_MS);
    return () => clearInterval(timer);
  }, [away, client]);
  if (!away) return null;
  const answered = new Date(lastAnswer());
  return (
    <div className="banner" role="alert">
      <CloudOff size={16} aria-hidden />
      <span>
        The API does not answer. What you see is as of <Time at={answered.toISOString()} /> (
        {relative((now - answered.getTime()) / 1000)}); the fleet serves on by itself. Trying again every few seconds.
      </span>
    </div>
  );
}
