"""Configurations of public models, as much of them as the arithmetic reads."""

LLAMA_8B = """{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
"model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
"torch_dtype": "bfloat16", "vocab_size": 128256}"""
