terraform {
  # Write-only arguments and ephemeral values keep passwords out of plans and of the state.
  required_version = ">= 1.11"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.0, < 8"
    }
    random = {
      source  = "hashicorp/random"
      version = ">= 3.7, < 4"
    }
  }
}
