# The control plane in a network that is there. All values but the names are those that a first try needs.

terraform {
  required_version = ">= 1.11"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.0, < 8"
    }
  }
}

provider "google" {
  project = "example-serving"
  region  = "us-central1"
}

variable "image" {
  description = "The image of Medley in a registry of yours, by digest."
  type        = string
}

module "medley" {
  source = "../.."

  image            = var.image
  project_id       = "example-serving"
  region           = "us-central1"
  zone             = "us-central1-a"
  network_name     = "serving"
  subnetwork_name  = "serving-us-central1"
  client_cidrs     = ["203.0.113.0/24"]
  node_cidrs       = ["10.128.0.0/16"]
  api_hostname     = "medley.example.com"
  gateway_hostname = "models.example.com"
  labels           = { team = "platform" }
}

output "api_url" {
  value = module.medley.api_url
}

output "gateway_url" {
  value = module.medley.gateway_url
}

output "load_balancer_address" {
  value = module.medley.load_balancer_address
}

output "first_token_command" {
  value = module.medley.first_token_command
}
