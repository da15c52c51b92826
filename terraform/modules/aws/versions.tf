terraform {
  # Write-only arguments and ephemeral values keep passwords out of plans and of the state.
  required_version = ">= 1.11"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.10, < 7"
    }
    random = {
      source  = "hashicorp/random"
      version = ">= 3.7, < 4"
    }
  }
}
