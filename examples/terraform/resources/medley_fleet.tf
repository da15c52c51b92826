resource "medley_fleet" "support" {
  name    = "support-bots"
  project = medley_project.support.id
  mode    = "auto"

  models = {
    chat = {
      model      = "qwen3-32b"
      slo        = { ttft_ms = 3000, tpot_ms = 100 }
      workload   = "azure-conversation"
      demand     = { metered = true, floor_requests_per_s = 0.5, ceiling_requests_per_s = 20 }
      aggregated = true
    }
    summaries = {
      model    = medley_model.own.id
      slo      = { ttft_ms = 6000, tpot_ms = 200 }
      workload = "azure-code"
      demand   = { requests_per_s = 1.5, priority = -1 }
    }
  }

  clouds = [
    {
      cloud   = "aws"
      regions = ["us-east-1", "us-east-2"]
      gpus    = ["L40S", "H100"]
      markets = ["on-demand", "spot"]
    },
    {
      cloud   = "gcp"
      regions = ["us-central1"]
      gpus    = ["L4", "H100"]
    },
  ]

  policy = {
    max_usd_per_hour = 120
    max_spot_share   = 0.5
    survive          = "instance"
    replicas         = { "chat/decode" = { min = 2 } }
  }

  reconcile = {
    max_new_nodes_per_hour = 8
    disruption             = { max_share = 0.25 }
  }
}

output "dollars_per_hour" {
  value = medley_fleet.support.expected_usd_per_hour
}
