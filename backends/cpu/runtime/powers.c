/* Squares as libm's pow makes them, for vectors whose x * x is near the middle of two numbers: pow(x, 2) step by step.

   pow of glibc since 2.28 and of musl (both from Arm's optimized routines) is exp(y log(x)), by tables and polynomials in twice
   the precision. Each rounding here is one of theirs where the processor has FMA; whether libm is such a one is tried first. */

#define LOGARITHMS 128
#define FROM 0x3fe6955500000000 /* x = 2^k z, where z is between the number of these bits and its double */

/* For each part of that interval 1 / c, where c is near its middle, log(c) to 43 binary places, and the rest of it. */
static const struct {
  double inverse, log, rest;
} logarithms[LOGARITHMS] = {
  {0x1.6ap+0, -0x1.62c82f2b9c8p-2, 0x1.ab4242837568p-48}, {0x1.68p+0, -0x1.5d1bdbf5808p-2, -0x1.ca508d8e0f72p-46},
  {0x1.66p+0, -0x1.57677174558p-2, -0x1.362a4d5b6506dp-45}, {0x1.64p+0, -0x1.51aad872df8p-2, -0x1.684e49eb067d5p-49},
  {0x1.62p+0, -0x1.4be5f957778p-2, -0x1.41b6993293eep-47}, {0x1.6p+0, -0x1.4618bc21c6p-2, 0x1.3d82f484c84ccp-46},
  {0x1.5ep+0, -0x1.404308686a8p-2, 0x1.c42f3ed820b3ap-50}, {0x1.5cp+0, -0x1.3a64c556948p-2, 0x1.0b1c68651946p-45},
  {0x1.5ap+0, -0x1.347dd9a988p-2, 0x1.5594dd4c58092p-45}, {0x1.58p+0, -0x1.2e8e2bae12p-2, 0x1.67b1e99b72bd8p-45},
  {0x1.56p+0, -0x1.2895a13de88p-2, 0x1.5ca14b6cfb03fp-46}, {0x1.56p+0, -0x1.2895a13de88p-2, 0x1.5ca14b6cfb03fp-46},
  {0x1.54p+0, -0x1.22941fbcf78p-2, -0x1.65a242853da76p-46}, {0x1.52p+0, -0x1.1c898c16998p-2, -0x1.fafbc68e75404p-46},
  {0x1.5p+0, -0x1.1675cababa8p-2, 0x1.f1fc63382a8fp-46}, {0x1.4ep+0, -0x1.1058bf9ae48p-2, -0x1.6a8c4fd055a66p-45},
  {0x1.4cp+0, -0x1.0a324e2739p-2, -0x1.c6bee7ef4030ep-47}, {0x1.4ap+0, -0x1.0402594b4dp-2, -0x1.036b89ef42d7fp-48},
  {0x1.4ap+0, -0x1.0402594b4dp-2, -0x1.036b89ef42d7fp-48}, {0x1.48p+0, -0x1.fb9186d5e4p-3, 0x1.d572aab993c87p-47},
  {0x1.46p+0, -0x1.ef0adcbdc6p-3, 0x1.b26b79c86af24p-45}, {0x1.44p+0, -0x1.e27076e2afp-3, -0x1.72f4f543fff1p-46},
  {0x1.42p+0, -0x1.d5c216b4fcp-3, 0x1.1ba91bbca681bp-45}, {0x1.4p+0, -0x1.c8ff7c79aap-3, 0x1.7794f689f8434p-45},
  {0x1.4p+0, -0x1.c8ff7c79aap-3, 0x1.7794f689f8434p-45}, {0x1.3ep+0, -0x1.bc286742d9p-3, 0x1.94eb0318bb78fp-46},
  {0x1.3cp+0, -0x1.af3c94e80cp-3, 0x1.a4e633fcd9066p-52}, {0x1.3ap+0, -0x1.a23bc1fe2bp-3, -0x1.58c64dc46c1eap-45},
  {0x1.3ap+0, -0x1.a23bc1fe2bp-3, -0x1.58c64dc46c1eap-45}, {0x1.38p+0, -0x1.9525a9cf45p-3, -0x1.ad1d904c1d4e3p-45},
  {0x1.36p+0, -0x1.87fa06520dp-3, 0x1.bbdbf7fdbfa09p-45}, {0x1.34p+0, -0x1.7ab890210ep-3, 0x1.bdb9072534a58p-45},
  {0x1.34p+0, -0x1.7ab890210ep-3, 0x1.bdb9072534a58p-45}, {0x1.32p+0, -0x1.6d60fe719dp-3, -0x1.0e46aa3b2e266p-46},
  {0x1.3p+0, -0x1.5ff3070a79p-3, -0x1.e9e439f105039p-46}, {0x1.3p+0, -0x1.5ff3070a79p-3, -0x1.e9e439f105039p-46},
  {0x1.2ep+0, -0x1.526e5e3a1bp-3, -0x1.0de8b90075b8fp-45}, {0x1.2cp+0, -0x1.44d2b6ccb8p-3, 0x1.70cc16135783cp-46},
  {0x1.2cp+0, -0x1.44d2b6ccb8p-3, 0x1.70cc16135783cp-46}, {0x1.2ap+0, -0x1.371fc201e9p-3, 0x1.178864d27543ap-48},
  {0x1.28p+0, -0x1.29552f81ffp-3, -0x1.48d301771c408p-45}, {0x1.26p+0, -0x1.1b72ad52f6p-3, -0x1.e80a41811a396p-45},
  {0x1.26p+0, -0x1.1b72ad52f6p-3, -0x1.e80a41811a396p-45}, {0x1.24p+0, -0x1.0d77e7cd09p-3, 0x1.a699688e85bf4p-47},
  {0x1.24p+0, -0x1.0d77e7cd09p-3, 0x1.a699688e85bf4p-47}, {0x1.22p+0, -0x1.fec9131dbep-4, -0x1.575545ca333f2p-45},
  {0x1.2p+0, -0x1.e27076e2bp-4, 0x1.a342c2af0003cp-45}, {0x1.2p+0, -0x1.e27076e2bp-4, 0x1.a342c2af0003cp-45},
  {0x1.1ep+0, -0x1.c5e548f5bcp-4, -0x1.d0c57585fbe06p-46}, {0x1.1cp+0, -0x1.a926d3a4aep-4, 0x1.53935e85baac8p-45},
  {0x1.1cp+0, -0x1.a926d3a4aep-4, 0x1.53935e85baac8p-45}, {0x1.1ap+0, -0x1.8c345d631ap-4, 0x1.37c294d2f5668p-46},
  {0x1.1ap+0, -0x1.8c345d631ap-4, 0x1.37c294d2f5668p-46}, {0x1.18p+0, -0x1.6f0d28ae56p-4, -0x1.69737c93373dap-45},
  {0x1.16p+0, -0x1.51b073f062p-4, 0x1.f025b61c65e57p-46}, {0x1.16p+0, -0x1.51b073f062p-4, 0x1.f025b61c65e57p-46},
  {0x1.14p+0, -0x1.341d7961bep-4, 0x1.c5edaccf913dfp-45}, {0x1.14p+0, -0x1.341d7961bep-4, 0x1.c5edaccf913dfp-45},
  {0x1.12p+0, -0x1.16536eea38p-4, 0x1.47c5e768fa309p-46}, {0x1.1p+0, -0x1.f0a30c0118p-5, 0x1.d599e83368e91p-45},
  {0x1.1p+0, -0x1.f0a30c0118p-5, 0x1.d599e83368e91p-45}, {0x1.0ep+0, -0x1.b42dd71198p-5, 0x1.c827ae5d6704cp-46},
  {0x1.0ep+0, -0x1.b42dd71198p-5, 0x1.c827ae5d6704cp-46}, {0x1.0cp+0, -0x1.77458f632cp-5, -0x1.cfc4634f2a1eep-45},
  {0x1.0cp+0, -0x1.77458f632cp-5, -0x1.cfc4634f2a1eep-45}, {0x1.0ap+0, -0x1.39e87b9fecp-5, 0x1.502b7f526feaap-48},
  {0x1.0ap+0, -0x1.39e87b9fecp-5, 0x1.502b7f526feaap-48}, {0x1.08p+0, -0x1.f829b0e78p-6, -0x1.980267c7e09e4p-45},
  {0x1.08p+0, -0x1.f829b0e78p-6, -0x1.980267c7e09e4p-45}, {0x1.06p+0, -0x1.7b91b07d58p-6, -0x1.88d5493faa639p-45},
  {0x1.04p+0, -0x1.fc0a8b0fcp-7, -0x1.f1e7cf6d3a69cp-50}, {0x1.04p+0, -0x1.fc0a8b0fcp-7, -0x1.f1e7cf6d3a69cp-50},
  {0x1.02p+0, -0x1.fe02a6b1p-8, -0x1.9e23f0dda40e4p-46}, {0x1.02p+0, -0x1.fe02a6b1p-8, -0x1.9e23f0dda40e4p-46}, {0x1p+0, 0, 0},
  {0x1p+0, 0, 0}, {0x1.fcp-1, 0x1.010157589p-7, -0x1.0c76b999d2be8p-46}, {0x1.f8p-1, 0x1.0205658938p-6, -0x1.3dc5b06e2f7d2p-45},
  {0x1.f4p-1, 0x1.8492528c9p-6, -0x1.aa0ba325a0c34p-45}, {0x1.fp-1, 0x1.0415d89e74p-5, 0x1.111c05cf1d753p-47},
  {0x1.ecp-1, 0x1.466aed42ep-5, -0x1.c167375bdfd28p-45}, {0x1.e8p-1, 0x1.894aa149fcp-5, -0x1.97995d05a267dp-46},
  {0x1.e4p-1, 0x1.ccb73cdddcp-5, -0x1.a68f247d82807p-46}, {0x1.e2p-1, 0x1.eea31c006cp-5, -0x1.e113e4fc93b7bp-47},
  {0x1.dep-1, 0x1.1973bd1466p-4, -0x1.5325d560d9e9bp-45}, {0x1.dap-1, 0x1.3bdf5a7d1ep-4, 0x1.cc85ea5db4ed7p-45},
  {0x1.d6p-1, 0x1.5e95a4d97ap-4, -0x1.c69063c5d1d1ep-45}, {0x1.d4p-1, 0x1.700d30aeacp-4, 0x1.c1e8da99ded32p-49},
  {0x1.dp-1, 0x1.9335e5d594p-4, 0x1.3115c3abd47dap-45}, {0x1.ccp-1, 0x1.b6ac88dad6p-4, -0x1.390802bf768e5p-46},
  {0x1.cap-1, 0x1.c885801bc4p-4, 0x1.646d1c65aacd3p-45}, {0x1.c6p-1, 0x1.ec739830a2p-4, -0x1.dc068afe645ep-45},
  {0x1.c4p-1, 0x1.fe89139dbep-4, -0x1.534d64fa10afdp-45}, {0x1.cp-1, 0x1.1178e8227ep-3, 0x1.1ef78ce2d07f2p-45},
  {0x1.bep-1, 0x1.1aa2b7e23fp-3, 0x1.ca78e44389934p-45}, {0x1.bap-1, 0x1.2d1610c868p-3, 0x1.39d6ccb81b4a1p-47},
  {0x1.b8p-1, 0x1.365fcb0159p-3, 0x1.62fa8234b7289p-51}, {0x1.b4p-1, 0x1.4913d8333bp-3, 0x1.5837954fdb678p-45},
  {0x1.b2p-1, 0x1.527e5e4a1bp-3, 0x1.633e8e5697dc7p-45}, {0x1.aep-1, 0x1.6574ebe8c1p-3, 0x1.9cf8b2c3c2e78p-46},
  {0x1.acp-1, 0x1.6f0128b757p-3, -0x1.5118de59c21e1p-45}, {0x1.aap-1, 0x1.7898d85445p-3, -0x1.c661070914305p-46},
  {0x1.a6p-1, 0x1.8beafeb39p-3, -0x1.73d54aae92cd1p-47}, {0x1.a4p-1, 0x1.95a5adcf7p-3, 0x1.7f22858a0ff6fp-47},
  {0x1.ap-1, 0x1.a93ed3c8aep-3, -0x1.8724350562169p-45}, {0x1.9ep-1, 0x1.b31d8575bdp-3, -0x1.c358d4eace1aap-47},
  {0x1.9cp-1, 0x1.bd087383bep-3, -0x1.d4bc4595412b6p-45}, {0x1.9ap-1, 0x1.c6ffbc6f01p-3, -0x1.1ec72c5962bd2p-48},
  {0x1.96p-1, 0x1.db13db0d49p-3, -0x1.aff2af715b035p-45}, {0x1.94p-1, 0x1.e530effe71p-3, 0x1.212276041f43p-51},
  {0x1.92p-1, 0x1.ef5ade4ddp-3, -0x1.a211565bb8e11p-51}, {0x1.9p-1, 0x1.f991c6cb3bp-3, 0x1.bcbecca0cdf3p-46},
  {0x1.8cp-1, 0x1.07138604d58p-2, 0x1.89cdb16ed4e91p-48}, {0x1.8ap-1, 0x1.0c42d67616p-2, 0x1.7188b163ceae9p-45},
  {0x1.88p-1, 0x1.1178e8227e8p-2, -0x1.c210e63a5f01cp-45}, {0x1.86p-1, 0x1.16b5ccbacf8p-2, 0x1.b9acdf7a51681p-45},
  {0x1.84p-1, 0x1.1bf99635a68p-2, 0x1.ca6ed5147bdb7p-45}, {0x1.82p-1, 0x1.214456d0eb8p-2, 0x1.a87deba46baeap-47},
  {0x1.7ep-1, 0x1.2bef07cdc9p-2, 0x1.a9cfa4a5004f4p-45}, {0x1.7cp-1, 0x1.314f1e1d36p-2, -0x1.8e27ad3213cb8p-45},
  {0x1.7ap-1, 0x1.36b6776be1p-2, 0x1.16ecdb0f177c8p-46}, {0x1.78p-1, 0x1.3c25277333p-2, 0x1.83b54b606bd5cp-46},
  {0x1.76p-1, 0x1.419b423d5e8p-2, 0x1.8e436ec90e09dp-47}, {0x1.74p-1, 0x1.4718dc271c8p-2, -0x1.f27ce0967d675p-45},
  {0x1.72p-1, 0x1.4c9e09e173p-2, -0x1.e20891b0ad8a4p-45}, {0x1.7p-1, 0x1.522ae0738ap-2, 0x1.ebe708164c759p-45},
  {0x1.6ep-1, 0x1.57bf753c8dp-2, 0x1.fadedee5d40efp-46}, {0x1.6cp-1, 0x1.5d5bddf596p-2, -0x1.a0b2a08a465dcp-47},
};

/* 2^(k / 128), as the bits less k << 45, and what that is wrong by, divided by it. */
static const struct {
  double rest;
  uint64_t bits;
} powers[LOGARITHMS] = {
  {0, 0x3ff0000000000000}, {0x1.b3b4f1a88bf6ep-54, 0x3feff63da9fb3335}, {-0x1.160139cd8dc5dp-56, 0x3fefec9a3e778061},
  {-0x1.05e7a108766d1p-54, 0x3fefe315e86e7f85}, {0x1.cd2523567f613p-55, 0x3fefd9b0d3158574},
  {-0x1.bce8023f98efap-55, 0x3fefd06b29ddf6de}, {0x1.0f74e61e6c861p-57, 0x3fefc74518759bc8},
  {0x1.0a3e45b33d399p-54, 0x3fefbe3ecac6f383}, {0x1.79aa65d837b6dp-54, 0x3fefb5586cf9890f},
  {0x1.eb51a92fdeffcp-55, 0x3fefac922b7247f7}, {0x1.ebe3d702f9cd1p-60, 0x3fefa3ec32d3d1a2},
  {-0x1.a033489906e0bp-57, 0x3fef9b66affed31b}, {-0x1.556522a2fbd0ep-54, 0x3fef9301d0125b51},
  {-0x1.080ef8c4eea55p-58, 0x3fef8abdc06c31cc}, {-0x1.1c923b9d5f416p-54, 0x3fef829aaea92de0},
  {0x1.0d3e3e95c55afp-55, 0x3fef7a98c8a58e51}, {-0x1.01b15eaa59348p-55, 0x3fef72b83c7d517b},
  {-0x1.f1ff055de323dp-55, 0x3fef6af9388c8dea}, {0x1.b898c3f1353bfp-55, 0x3fef635beb6fcb75},
  {-0x1.6d99c7611eb26p-54, 0x3fef5be084045cd4}, {0x1.aecf73e3a2f6p-54, 0x3fef54873168b9aa},
  {-0x1.fe782cb86389dp-55, 0x3fef4d5022fcd91d}, {0x1.a6f4144a6c38dp-55, 0x3fef463b88628cd6},
  {0x1.07a05b0e4047dp-55, 0x3fef3f49917ddc96}, {0x1.68efde3a8a894p-54, 0x3fef387a6e756238},
  {0x1.75e18f274487dp-55, 0x3fef31ce4fb2a63f}, {0x1.0472b981fe7f2p-55, 0x3fef2b4565e27cdd},
  {-0x1.6b87b3f71085ep-54, 0x3fef24dfe1f56381}, {0x1.2f7e16d09ab31p-55, 0x3fef1e9df51fdee1},
  {-0x1.d219b1a6fbffap-60, 0x3fef187fd0dad990}, {0x1.b3782720c0ab4p-55, 0x3fef1285a6e4030b},
  {0x1.e149289cecb8fp-57, 0x3fef0cafa93e2f56}, {0x1.34d754db0abb6p-55, 0x3fef06fe0a31b715},
  {0x1.64201e2ac744cp-55, 0x3fef0170fc4cd831}, {0x1.fdd395dd3f84ap-55, 0x3feefc08b26416ff},
  {-0x1.6a3803b8e5b04p-55, 0x3feef6c55f929ff1}, {-0x1.24aedcc4b5068p-54, 0x3feef1a7373aa9cb},
  {-0x1.907f81b512d8ep-54, 0x3feeecae6d05d866}, {-0x1.1d1e83e9436d2p-56, 0x3feee7db34e59ff7},
  {-0x1.91919b3ce1b15p-54, 0x3feee32dc313a8e5}, {0x1.59f48a72a4c6dp-55, 0x3feedea64c123422},
  {-0x1.312607a28698ap-54, 0x3feeda4504ac801c}, {-0x1.8a78f4817895bp-58, 0x3feed60a21f72e2a},
  {-0x1.c2c9b67499a1bp-56, 0x3feed1f5d950a897}, {0x1.363ed60c2ac11p-59, 0x3feece086061892d},
  {0x1.666093b0664efp-54, 0x3feeca41ed1d0057}, {0x1.ecce1daa10379p-57, 0x3feec6a2b5c13cd0},
  {0x1.3ff8e3f0f123p-54, 0x3feec32af0d7d3de}, {0x1.690cebb7aafbp-56, 0x3feebfdad5362a27},
  {0x1.31dbdeb54e077p-54, 0x3feebcb299fddd0d}, {-0x1.f94340071a38ep-55, 0x3feeb9b2769d2ca7},
  {-0x1.7deccdc93a349p-55, 0x3feeb6daa2cf6642}, {-0x1.8dec6bd0f385fp-56, 0x3feeb42b569d4f82},
  {-0x1.61246ec7b5cf6p-55, 0x3feeb1a4ca5d920f}, {0x1.3350518fdd78ep-54, 0x3feeaf4736b527da},
  {0x1.b98b72f8a9b05p-56, 0x3feead12d497c7fd}, {0x1.063e1e21c5409p-54, 0x3feeab07dd485429},
  {0x1.4c7855019c6eap-60, 0x3feea9268a5946b7}, {0x1.432e62b64c035p-54, 0x3feea76f15ad2148},
  {-0x1.ce44a6199769fp-55, 0x3feea5e1b976dc09}, {-0x1.c33c53bef4da8p-55, 0x3feea47eb03a5585},
  {-0x1.45378892be9aep-55, 0x3feea34634ccc320}, {-0x1.3cedd78565858p-54, 0x3feea23882552225},
  {0x1.710aa807e1964p-58, 0x3feea155d44ca973}, {-0x1.3b3efbf5e2228p-54, 0x3feea09e667f3bcd},
  {-0x1.a12ad8734b982p-57, 0x3feea012750bdabf}, {-0x1.367efb86da9eep-57, 0x3fee9fb23c651a2f},
  {-0x1.0dc3d54e08851p-55, 0x3fee9f7df9519484}, {-0x1.81f647e5a3ecfp-56, 0x3fee9f75e8ec5f74},
  {-0x1.6ee4ac08b7dbp-55, 0x3fee9f9a48a58174}, {-0x1.619321e55e68ap-55, 0x3fee9feb564267c9},
  {0x1.09ccb5e09d4d3p-54, 0x3feea0694fde5d3f}, {-0x1.b32dcb94da51dp-56, 0x3feea11473eb0187},
  {0x1.4ecfd5467c06bp-54, 0x3feea1ed0130c132}, {0x1.5ebe1abd66c55p-57, 0x3feea2f336cf4e62},
  {-0x1.8a1c52fb3cf42p-55, 0x3feea427543e1a12}, {-0x1.369b6f13b3734p-54, 0x3feea589994cce13},
  {-0x1.05e843a19ff1ep-55, 0x3feea71a4623c7ad}, {-0x1.4d450d872576ep-54, 0x3feea8d99b4492ed},
  {0x1.0ad675b0e8ap-54, 0x3feeaac7d98a6699}, {0x1.db72fc1f0eab4p-55, 0x3feeace5422aa0db},
  {-0x1.5b6609cc5e7ffp-57, 0x3feeaf3216b5448c}, {0x1.bf68359f35f44p-56, 0x3feeb1ae99157736},
  {-0x1.3091fa71e3d83p-54, 0x3feeb45b0b91ffc6}, {-0x1.da9b88b6c1e29p-58, 0x3feeb737b0cdc5e5},
  {-0x1.c23f97c90b959p-57, 0x3feeba44cbc8520f}, {-0x1.2434322f4f9aap-54, 0x3feebd829fde4e50},
  {-0x1.5ca6cd7668e4bp-55, 0x3feec0f170ca07ba}, {0x1.1affc2b91ce27p-56, 0x3feec49182a3f090},
  {0x1.dd235e10a73bbp-57, 0x3feec86319e32323}, {-0x1.7c50422622263p-55, 0x3feecc667b5de565},
  {0x1.b1c86e3e231d5p-55, 0x3feed09bec4a2d33}, {-0x1.1bbd1d3bcbb15p-54, 0x3feed503b23e255d},
  {0x1.0cc319cee31d2p-54, 0x3feed99e1330b358}, {0x1.469846e735ab3p-55, 0x3feede6b5579fdbf},
  {-0x1.2dfcd978e9db4p-55, 0x3feee36bbfd3f37a}, {0x1.c1a7792cb3387p-55, 0x3feee89f995ad3ad},
  {-0x1.07b8f4ad1d9fap-54, 0x3feeee07298db666}, {-0x1.5c3d956dcaebap-58, 0x3feef3a2b84f15fb},
  {-0x1.0a40e3da6f64p-54, 0x3feef9728de5593a}, {-0x1.8d6f438ad9334p-57, 0x3feeff76f2fb5e47},
  {-0x1.1eee26b588a35p-54, 0x3fef05b030a1064a}, {0x1.4ffd70a5fddcdp-56, 0x3fef0c1e904bc1d2},
  {-0x1.1bdfbfa9298acp-54, 0x3fef12c25bd71e09}, {0x1.36eae30af0cb3p-56, 0x3fef199bdd85529c},
  {0x1.ee3325c9ffd94p-55, 0x3fef20ab5fffd07a}, {0x1.4e08fd10959acp-55, 0x3fef27f12e57d14b},
  {0x1.3cdaf384e1a67p-57, 0x3fef2f6d9406e7b5}, {0x1.76b2c6c921968p-57, 0x3fef3720dcef9069},
  {-0x1.08a1883ccb5d2p-55, 0x3fef3f0b555dc3fa}, {-0x1.fad5d3ffffa6fp-55, 0x3fef472d4a07897c},
  {-0x1.00dae3875a949p-54, 0x3fef4f87080d89f2}, {0x1.4a385a63d07a7p-56, 0x3fef5818dcfba487},
  {-0x1.2919e2040220fp-55, 0x3fef60e316c98398}, {0x1.e5a50d5c192acp-55, 0x3fef69e603db3285},
  {0x1.43a59ac016b4bp-55, 0x3fef7321f301b460}, {-0x1.2d52107b43e1fp-55, 0x3fef7c97337b9b5f},
  {-0x1.92ab93b470dc9p-55, 0x3fef864614f5a129}, {0x1.4b604603a88d3p-56, 0x3fef902ee78b3ff6},
  {0x1.3c5ec519d7271p-55, 0x3fef9a51fbc74c83}, {-0x1.ff7128fd391fp-55, 0x3fefa4afa2a490da},
  {-0x1.dae98e223747dp-55, 0x3fefaf482d8e67f1}, {0x1.ec3bc41aa2008p-55, 0x3fefba1bee615a27},
  {0x1.42b94c3a9eb32p-55, 0x3fefc52b376bba97}, {0x1.a64a931d185eep-55, 0x3fefd0765b6e4540},
  {-0x1.e37bae43be3edp-55, 0x3fefdbfdad9cbe14}, {0x1.7893b4d91cd9dp-56, 0x3fefe7c1819e90d8},
  {0x1.305c14160cc89p-58, 0x3feff3c22b8f71f1},
};

#if defined(__GNUC__) && !defined(__clang__)
#define QUICKLY __attribute__((optimize("O2"))) /* called by loops for one vector in six */
#else
#define QUICKLY
#endif

#define BITS_OF(x) ((union { double number; uint64_t bits; }){.number = (x)}.bits)
#define NUMBER_OF(x) ((union { uint64_t bits; double number; }){.bits = (x)}.number)
#define FUSED __builtin_fma

static QUICKLY double square_by_logarithm(double x) {
  /* log(|x|) = high + low = k log(2) + log(c) + log(1 + r) */
  const uint64_t bits = BITS_OF(x) & 0x7fffffffffffffff, distance = bits - FROM, part = (distance >> 45) % LOGARITHMS;
  const double k = (double)((int64_t)distance >> 52), z = NUMBER_OF(bits - (distance & (uint64_t)0xfff << 52));
  const double r = FUSED(z, logarithms[part].inverse, -1);
  const double t = FUSED(k, 0x1.62e42fefa38p-1, logarithms[part].log), sum = t + r;
  const double low1 = FUSED(k, 0x1.ef35793c7673p-45, logarithms[part].rest), low2 = t - sum + r;
  const double half = -0.5 * r, r2 = r * half, r3 = r * r2, high = sum + r2;
  const double low3 = FUSED(half, r, -r2), low4 = sum - high + r2;
  const double p1 = FUSED(r, 0x1.0000000000006p-1, -0x1.555555555556p-1);
  const double p2 = FUSED(r, -0x1.555555529a47ap-1, 0x1.999999959554ep-1);
  const double p3 = FUSED(r, 0x1.0002b8b263fc3p+0, -0x1.2495b9b4845e9p+0);
  const double low = FUSED(r3, FUSED(r2, FUSED(r2, p3, p2), p1), low1 + low2 + low3 + low4);
  const double log = high + low, log_rest = high - log + low;

  /* exp(2 log(|x|)) = 2^(n / 128) exp(q) */
  const double shifted = FUSED(0x1.71547652b82fep7, 2 * log, 0x1.8p52), n = shifted - 0x1.8p52;
  const double near = FUSED(n, -0x1.cf79abc9e3b3ap-47, FUSED(n, -0x1.62e42fefap-8, 2 * log)), q = near + 2 * log_rest;
  const uint64_t which = BITS_OF(shifted) % LOGARITHMS;
  const double scale = NUMBER_OF(powers[which].bits + (BITS_OF(shifted) << 45)), q2 = q * q;
  const double e1 = FUSED(q2, FUSED(q, 0x1.555555555543cp-3, 0x1.ffffffffffdbdp-2), powers[which].rest + q);
  const double e2 = FUSED(q, 0x1.1111167a4d017p-7, 0x1.55555cf172b91p-5);
  return FUSED(scale, FUSED(q2 * q2, e2, e1), scale);
}

static double (*volatile const libm_pow)(double, double) = pow; /* of an exponent that it knows a compiler makes x * x */

/* Where the exact square is near the middle of two numbers, of which another algorithm would take the other one now and then. */
static int is_pow_by_logarithm(void) {
#ifdef __FP_FAST_FMA
  uint64_t random = 88172645463325252;
  for (int tried = 0; tried < 1024;) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    const double x = NUMBER_OF(random >> 12 | (uint64_t)(1023 - 16 + random % 32) << 52), square = x * x;
    if (square + 1.025 * FUSED(x, x, -square) == square) continue;
    if (square_by_logarithm(x) != libm_pow(x, 2)) return 0;
    tried++;
  }
  return 1;
#else
  return 0; /* it would take longer than to ask libm */
#endif
}

static double square_by_libm(double x) { return libm_pow(x, 2); }
