# A whole team: its project, what it may spend, a fleet that serves one model, and a token for its program.
#
#   export MEDLEY_ENDPOINT=http://127.0.0.1:8080 MEDLEY_TOKEN=...   # medley api, medley token create --role admin
#   terraform init && terraform apply
terraform {
  required_version = ">= 1.5"
  required_providers {
    medley = {
      source  = "medley/medley"
      version = "~> 0.1"
    }
  }
}

provider "medley" {}

variable "requests_per_s" {
  type        = number
  default     = 2
  description = "That the fleet is planned for."
}

variable "max_usd_per_hour" {
  type        = number
  default     = 100
  description = "A fleet that needs more fails at plan, with the numbers."
}

variable "mode" {
  type        = string
  default     = "observe"
  description = "observe rents nothing; auto does."
}

resource "medley_project" "team" {
  name        = "support"
  description = "Chat bots of customer support"
}

resource "medley_fleet" "chat" {
  name    = "chat"
  project = medley_project.team.id
  mode    = var.mode

  models = {
    chat = {
      model      = "gpt-oss-20b"
      slo        = { ttft_ms = 2000, tpot_ms = 62.5 }
      workload   = "azure-conversation"
      demand     = { requests_per_s = var.requests_per_s }
      aggregated = true
    }
  }

  clouds = [{
    cloud   = "aws"
    regions = ["us-east-1"]
    gpus    = ["L40S"]
  }]

  policy = { max_usd_per_hour = var.max_usd_per_hour }
  solver = { n_max = 1 }
}

resource "medley_budget" "chat" {
  fleet         = medley_fleet.chat.id
  usd_per_month = 80000.5
}

resource "medley_api_token" "bot" {
  name    = "support bot"
  role    = "client"
  project = medley_project.team.id
}

output "dollars_per_hour" {
  value = medley_fleet.chat.expected_usd_per_hour
}

output "bot_token" {
  value     = medley_api_token.bot.token
  sensitive = true
}
