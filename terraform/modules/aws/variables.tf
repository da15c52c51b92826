variable "name" {
  description = "Begins the name of everything that is made."
  type        = string
  default     = "medley"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,19}$", var.name))
    error_message = "name must be 2 to 20 lower-case letters, digits and dashes, and begin with a letter: load balancers allow no more."
  }
}

variable "image" {
  description = "The container image of Medley (the Dockerfile of this repository), by digest."
  type        = string

  validation {
    condition     = can(regex("@sha256:[0-9a-f]{64}$", var.image))
    error_message = "image must end in @sha256:DIGEST: a tag can be moved, and two replicas could then run two releases."
  }
}

variable "vpc_id" {
  description = "The VPC that the control plane runs in, and that nodes on AWS are launched in."
  type        = string

  validation {
    condition     = can(regex("^vpc-[0-9a-f]{8,17}$", var.vpc_id))
    error_message = "vpc_id must look like vpc-0123456789abcdef0."
  }
}

variable "private_subnet_ids" {
  description = "Subnets, each in a zone of its own, with a way out through NAT: tasks, database and files are in them."
  type        = list(string)

  validation {
    condition     = length(distinct(var.private_subnet_ids)) >= 2
    error_message = "private_subnet_ids needs two subnets or more, in different zones: the database has a standby in a second one."
  }
}

variable "load_balancer_subnet_ids" {
  description = "Subnets of the HTTPS load balancer: public ones where clients come from the internet, see internet_facing."
  type        = list(string)

  validation {
    condition     = length(distinct(var.load_balancer_subnet_ids)) >= 2
    error_message = "load_balancer_subnet_ids needs two subnets or more, in different zones."
  }
}

variable "internet_facing" {
  description = "Whether the HTTPS load balancer has public addresses."
  type        = bool
  default     = false
}

variable "client_cidrs" {
  description = "Who may open connections to the HTTPS load balancer: people, Terraform, and clients of models."
  type        = list(string)

  validation {
    condition     = length(var.client_cidrs) > 0 && alltrue([for cidr in var.client_cidrs : can(cidrnetmask(cidr))])
    error_message = "client_cidrs needs one IPv4 range or more, such as 10.0.0.0/8."
  }
}

variable "node_cidrs" {
  description = "Where nodes are: they report to the control plane, and gateways send them requests."
  type        = list(string)

  validation {
    condition     = length(var.node_cidrs) > 0 && alltrue([for cidr in var.node_cidrs : can(cidrnetmask(cidr))])
    error_message = "node_cidrs needs one IPv4 range or more: the VPC's, and those of nodes of other clouds."
  }
}

variable "nodes_outside" {
  description = "Whether nodes of other clouds reach the control plane over the internet. Every message is encrypted and authenticated (CURVE) either way. Changing it gives nodes another address: end all fleets first."
  type        = bool
  default     = false
}

variable "certificate_arn" {
  description = "Certificate (ACM) of both host names."
  type        = string

  validation {
    condition     = can(regex("^arn:aws[a-z-]*:acm:[a-z0-9-]+:[0-9]{12}:certificate/[0-9a-f-]+$", var.certificate_arn))
    error_message = "certificate_arn must be the ARN of a certificate of ACM."
  }
}

variable "api_hostname" {
  description = "Host name of the admin API and the console. Point it at the output load_balancer_dns_name."
  type        = string

  validation {
    condition     = can(regex("^([a-z0-9]([a-z0-9-]*[a-z0-9])?\\.)+[a-z]{2,}$", var.api_hostname))
    error_message = "api_hostname must be a full host name in lower case, such as medley.example.com."
  }
}

variable "gateway_hostname" {
  description = "Host name of the OpenAI-compatible endpoint; another one than api_hostname."
  type        = string

  validation {
    condition     = can(regex("^([a-z0-9]([a-z0-9-]*[a-z0-9])?\\.)+[a-z]{2,}$", var.gateway_hostname))
    error_message = "gateway_hostname must be a full host name in lower case, such as models.example.com."
  }

  validation {
    condition     = var.gateway_hostname != var.api_hostname
    error_message = "gateway_hostname and api_hostname must differ: the name says where a request goes."
  }
}

variable "access_log_bucket" {
  description = "S3 bucket for the load balancers' access logs; its policy lets load balancers write."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.access_log_bucket))
    error_message = "access_log_bucket must be the name of a bucket, not its ARN."
  }
}

variable "api_replicas" {
  description = "Processes of the admin API."
  type        = number
  default     = 2

  validation {
    condition     = var.api_replicas >= 2 && var.api_replicas <= 20 && floor(var.api_replicas) == var.api_replicas
    error_message = "api_replicas must be 2 to 20: with one, a new release or a lost zone is an outage."
  }
}

variable "gateway_replicas" {
  description = "Gateways in front of the models."
  type        = number
  default     = 2

  validation {
    condition     = var.gateway_replicas >= 2 && var.gateway_replicas <= 50 && floor(var.gateway_replicas) == var.gateway_replicas
    error_message = "gateway_replicas must be 2 to 50."
  }
}

variable "sizes" {
  description = "CPU units and MiB of memory of a task, by process; Fargate sells certain pairs only."
  type = object({
    api       = optional(object({ cpu = number, memory_mib = number }), { cpu = 1024, memory_mib = 4096 })
    reconcile = optional(object({ cpu = number, memory_mib = number }), { cpu = 2048, memory_mib = 8192 })
    gateway   = optional(object({ cpu = number, memory_mib = number }), { cpu = 2048, memory_mib = 4096 })
  })
  default = {}

  validation {
    condition = alltrue([for size in values(var.sizes) : contains([256, 512, 1024, 2048, 4096, 8192, 16384], size.cpu)
    && size.memory_mib >= 2 * size.cpu && size.memory_mib <= 8 * size.cpu])
    error_message = "sizes: cpu is 256, 512, 1024, 2048, 4096, 8192 or 16384, and memory_mib 2 to 8 times as much."
  }

  validation {
    condition     = var.sizes.reconcile.memory_mib >= 4096
    error_message = "sizes.reconcile needs 4096 MiB or more: SkyPilot's server and the solver are in it."
  }
}

variable "database_instance_class" {
  description = "Instance class of the database."
  type        = string
  default     = "db.m7g.large"

  validation {
    condition     = can(regex("^db\\.[a-z0-9]+\\.[a-z0-9]+$", var.database_instance_class))
    error_message = "database_instance_class must look like db.m7g.large."
  }
}

variable "database_storage_gib" {
  description = "Storage of the database at first; it grows by itself to four times as much."
  type        = number
  default     = 50

  validation {
    condition     = var.database_storage_gib >= 20 && var.database_storage_gib <= 16000
    error_message = "database_storage_gib must be 20 to 16000."
  }
}

variable "database_password_version" {
  description = "Raise it to have a new password made; tasks take it at their next start (see the README)."
  type        = number
  default     = 1

  validation {
    condition     = var.database_password_version >= 1 && floor(var.database_password_version) == var.database_password_version
    error_message = "database_password_version must be a whole number from 1 on."
  }
}

variable "database_ca" {
  description = "Amazon's certificates for RDS in this region, as PEM (file(\"REGION-bundle.pem\"), from truststore.pki.rds.amazonaws.com): the server is then verified. Empty: the connection is encrypted, but not verified. After a change raise database_password_version."
  type        = string
  default     = ""

  validation {
    condition     = var.database_ca == "" || (startswith(trimspace(var.database_ca), "-----BEGIN CERTIFICATE-----") && length(var.database_ca) <= 20000)
    error_message = "database_ca must be the PEM text of one region's bundle, 20,000 characters at most: the global one is too large for a task."
  }
}

variable "backup_retention_days" {
  description = "Days that backups of the database are kept; it can be restored to any second of them."
  type        = number
  default     = 14

  validation {
    condition     = var.backup_retention_days >= 7 && var.backup_retention_days <= 35
    error_message = "backup_retention_days must be 7 to 35."
  }
}

variable "log_retention_days" {
  description = "Days that logs are kept."
  type        = number
  default     = 365

  validation {
    condition     = contains([30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827], var.log_retention_days)
    error_message = "log_retention_days must be a value that CloudWatch knows: 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096 or 1827."
  }
}

variable "deletion_protection" {
  description = "Whether the database and the load balancers refuse to be destroyed. Set it to false, apply, then destroy."
  type        = bool
  default     = true
}

variable "launch_regions" {
  description = "Regions of AWS that nodes may be launched in."
  type        = list(string)

  validation {
    condition     = length(var.launch_regions) > 0 && alltrue([for region in var.launch_regions : can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", region))])
    error_message = "launch_regions needs one region or more, such as us-east-1."
  }
}

variable "create_node_role" {
  description = "Whether to make the role skypilot-v1 that nodes have, without any right. False where the account has one already: look at what it may do, SkyPilot's own gives full access to EC2 and S3."
  type        = bool
  default     = true
}

variable "runpod_secret_arn" {
  description = "Secret (Secrets Manager) with a RunPod API key as its text. Null: RunPod is not used."
  type        = string
  default     = null

  validation {
    condition     = var.runpod_secret_arn == null || can(regex("^arn:aws[a-z-]*:secretsmanager:", var.runpod_secret_arn))
    error_message = "runpod_secret_arn must be the ARN of a secret, never the key itself."
  }
}

variable "watch_schedule" {
  description = "When a scheduled `medley reconcile --once` looks whether anybody leads, and leads for a round if nobody does."
  type        = string
  default     = "rate(15 minutes)"

  validation {
    condition     = can(regex("^(rate|cron)\\(.+\\)$", var.watch_schedule))
    error_message = "watch_schedule must look like rate(15 minutes) or cron(0/15 * * * ? *)."
  }
}

variable "tags" {
  description = "Of everything that is made."
  type        = map(string)
  default     = {}
}
