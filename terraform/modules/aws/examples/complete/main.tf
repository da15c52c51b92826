# The control plane in a VPC that is there. All values but the ids are those that a first try needs.

terraform {
  required_version = ">= 1.11"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.10, < 7"
    }
  }
}

provider "aws" {
  region = "us-east-1"
}

variable "image" {
  description = "The image of Medley in a registry of yours, by digest."
  type        = string
}

module "medley" {
  source = "../.."

  image                    = var.image
  vpc_id                   = "vpc-0a1b2c3d4e5f60718"
  private_subnet_ids       = ["subnet-0a1b2c3d4e5f60001", "subnet-0a1b2c3d4e5f60002"]
  load_balancer_subnet_ids = ["subnet-0a1b2c3d4e5f60003", "subnet-0a1b2c3d4e5f60004"]
  client_cidrs             = ["10.0.0.0/8"]
  node_cidrs               = ["10.20.0.0/16"]
  certificate_arn          = "arn:aws:acm:us-east-1:123456789012:certificate/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
  api_hostname             = "medley.example.com"
  gateway_hostname         = "models.example.com"
  access_log_bucket        = "example-load-balancer-logs"
  launch_regions           = ["us-east-1", "us-west-2"]
  tags                     = { team = "platform" }
}

output "api_url" {
  value = module.medley.api_url
}

output "gateway_url" {
  value = module.medley.gateway_url
}

output "load_balancer_dns_name" {
  value = module.medley.load_balancer_dns_name
}

output "first_token_command" {
  value = module.medley.first_token_command
}
