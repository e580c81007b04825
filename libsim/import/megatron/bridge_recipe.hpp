#pragma once

#include <string>

#include "libsim/import/megatron/launch_files.hpp"

namespace stagecraft {

/// A recipe of Megatron-Bridge for a job: a Python file whose function config() gives its
/// ConfigContainer, and which torchrun starts. It trains on mock data.
///
/// Each flag of Megatron-LM is a field of one of Megatron-Bridge's configuration classes; fields
/// that the flags leave out but Megatron-Bridge sets otherwise are set to what the plan assumes.
/// Pre: job.version is current.
/// Source: megatron-bridge 0.3.1 with megatron-core 0.16.1, megatron/bridge/training/config.py and
/// megatron/bridge/models/gpt_provider.py.
std::string bridge_recipe(LaunchJob const& job);

}  // namespace stagecraft
