#include "libsim/plan/sha256.hpp"

#include <openssl/evp.h>

#include <array>
#include <stdexcept>

namespace stagecraft {
namespace {

void check(bool is_done) {
  if (!is_done) throw std::runtime_error("could not compute a SHA-256 digest");
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_{EVP_MD_CTX_new()} {
  check(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::add(std::string_view piece) {
  check(EVP_DigestUpdate(context_.get(), piece.data(), piece.size()) == 1);
}

std::string Sha256::hexadecimal() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  check(EVP_DigestFinal_ex(context_.get(), digest.data(), &length) == 1);
  constexpr char digits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) {
    hex += digits[digest[i] >> 4];
    hex += digits[digest[i] & 15];
  }
  return hex;
}

}  // namespace stagecraft
