#include "libsim/host/sha256.hpp"

// SHA256_*, which OpenSSL 3 has but warns of: EVP_* first fills tables of all that OpenSSL can do,
// which takes longer than the digests of a plan.
#define OPENSSL_API_COMPAT 10100
#include <openssl/sha.h>

#include <array>
#include <stdexcept>

namespace stagecraft {
namespace {

void check(int result) {
  if (result != 1) throw std::runtime_error("could not compute a SHA-256 digest");
}

}  // namespace

void Sha256::Free::operator()(SHA256state_st* context) const { delete context; }

Sha256::Sha256() : context_{new SHA256_CTX} { check(SHA256_Init(context_.get())); }

void Sha256::add(std::string_view piece) {
  check(SHA256_Update(context_.get(), piece.data(), piece.size()));
}

std::string Sha256::hexadecimal() {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  check(SHA256_Final(digest.data(), context_.get()));
  constexpr char digits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned char const byte : digest) {
    hex += digits[byte >> 4];
    hex += digits[byte & 15];
  }
  return hex;
}

}  // namespace stagecraft
