"""Writes templates_lib/data/models from the config.json files inside the wheel of aiconfigurator-core (Apache-2.0).

    pip download --no-deps aiconfigurator-core==0.12.0
    python bench/extracts/model_facts.py aiconfigurator_core-0.12.0-*.whl

Only keys that describe the architecture are kept. Phi-4 and Llama 3 are not in the wheel: see OTHERS.
"""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

OUT = Path(__file__).resolve().parents[2] / "templates_lib" / "data" / "models"
SOURCE = "PyPI aiconfigurator-core 0.12.0, model_configs/{name}_config.json (Apache-2.0), read 2026-11-21"
NOISE = (
    "rope", "token_id", "dropout", "transformers_version", "initializer", "auto_map", "architectures", "use_cache",
    "vision_config", "beam", "label", "top_p", "temperature", "length_penalty", "max_length", "min_length", "return_",
    "output_", "pruned", "problem_type", "bad_words", "suppress", "torchscript", "task_specific", "finetuning",
    "chunk_size_feed", "early_stopping", "diversity", "no_repeat", "do_sample", "repetition", "remove_invalid",
    "cross_attention", "prefix", "name_or_path", "aux_loss", "router_aux", "max_window", "rms_norm", "scoring",
    "mamba_ssm", "topk_group", "n_group", "routed_scaling", "norm_topk", "pretraining_tp", "mtp", "swiglu",
    "encoder_no_repeat",
)  # fmt: skip
CATALOGUE = {
    "gpt-oss-20b": "openai--gpt-oss-20b",
    "gpt-oss-120b": "openai--gpt-oss-120b",
    "qwen3-32b": "Qwen--Qwen3-32B",
    "qwen3-235b-a22b": "Qwen--Qwen3-235B-A22B",
}
MEASURED = {
    "deepseek-ai/DeepSeek-R1": "deepseek-ai--DeepSeek-R1",
    "deepseek-ai/DeepSeek-V3": "deepseek-ai--DeepSeek-V3",
    "MiniMaxAI/MiniMax-M2.5": "MiniMaxAI--MiniMax-M2.5",
    "openai/gpt-oss-120b": "openai--gpt-oss-120b",
    "meta-llama/Llama-3.1-70B": "meta-llama--Meta-Llama-3.1-70B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama--Meta-Llama-3.1-8B",
    "Qwen/Qwen3-32B": "Qwen--Qwen3-32B",
    "Qwen/Qwen3.5-397B-A17B": "Qwen--Qwen3.5-397B-A17B",
    "moonshotai/Kimi-K2.5": "moonshotai--Kimi-K2.5",
    "Qwen/Qwen3-235B-A22B-FP8": "Qwen--Qwen3-235B-A22B-FP8",
    "zhipuai/GLM-5": "zai-org--GLM-5",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama--Meta-Llama-3.1-8B",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-ai--DeepSeek-R1",
    "nvidia/Qwen3-32B-NVFP4": "Qwen--Qwen3-32B",
    "nvidia/DeepSeek-V3.1-NVFP4": "nvidia--DeepSeek-V3.1-NVFP4",
}
OTHERS = {
    "phi-4-14b": (
        "huggingface.co/microsoft/phi-4 config.json and the Phi-4 technical report (arXiv 2412.08905)",
        "microsoft/phi-4",
        {
            "model_type": "phi3", "num_hidden_layers": 40, "hidden_size": 5120, "intermediate_size": 17920,
            "num_attention_heads": 40, "num_key_value_heads": 10, "vocab_size": 100352, "sliding_window": None,
            "tie_word_embeddings": False, "max_position_embeddings": 16384, "torch_dtype": "bfloat16",
        },
    ),
    "llama-3-70b": (
        "huggingface.co/meta-llama/Meta-Llama-3-70B config.json and The Llama 3 Herd of Models (arXiv 2407.21783)",
        "meta-llama/Meta-Llama-3-70B",
        {
            "model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192, "intermediate_size": 28672,
            "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256, "attention_bias": False,
            "tie_word_embeddings": False, "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
        },
    ),
}  # fmt: skip


def slim(config: dict[str, Any]) -> dict[str, Any]:
    """`config` without the keys that say nothing about size or shape."""
    kept = {k: v for k, v in config.items() if k.startswith("qk_") or not any(noise in k for noise in NOISE)}
    if isinstance(kept.get("text_config"), dict):
        kept["text_config"] = slim(kept["text_config"])
    quantization = kept.get("quantization_config")
    if isinstance(quantization, dict):  # lists of kept modules per layer run to thousands of lines
        for key in ("modules_to_not_convert", "ignore"):
            names = quantization.get(key, [])
            if len(names) > 16:
                quantization[key] = [n for n in names if "layers." not in n] + [n for n in names if "layers.9." in n]
    return kept


def write(path: Path, id_: str, revision: str, source: str, config: dict[str, Any]) -> None:
    fact = {"id": id_, "revision": revision, "source": source, "config": config}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(fact, indent=1) + "\n", encoding="utf-8")


def main(wheel: str) -> None:
    with zipfile.ZipFile(wheel) as archive:

        def config_of(name: str) -> dict[str, Any]:
            return slim(json.loads(archive.read(f"aiconfigurator_core/model_configs/{name}_config.json")))

        for id_, name in CATALOGUE.items():
            write(OUT / f"{id_}.json", id_, name.replace("--", "/"), SOURCE.format(name=name), config_of(name))
        for id_, name in MEASURED.items():
            path = OUT / "measured" / f"{id_.replace('/', '--')}.json"
            write(path, id_, name.replace("--", "/"), SOURCE.format(name=name), config_of(name))
    for id_, (source, revision, config) in OTHERS.items():
        write(OUT / f"{id_}.json", id_, revision, f"{source}, as of 2026-11-21", config)


if __name__ == "__main__":
    main(sys.argv[1])
